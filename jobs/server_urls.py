"""The URLs of PostgreSQL and Redis, checked the same by whoever reads them. No Django: the launcher reads them too."""

from urllib.parse import SplitResult, urlsplit

from jobs.ranges import WrongSetting

# What the clients of each take; TLS to PostgreSQL is an option, `sslmode`.
SCHEMES = {"DATABASE_URL": ("postgresql", "postgres"), "REDIS_URL": ("redis", "rediss")}


def parts_of(variable: str, url: str) -> SplitResult:
    """Raises WrongSetting, which never shows more of a URL than its scheme: what follows may be a password."""
    usual = SCHEMES[variable][0]
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        allowed = f"{usual}://user:password@host:port/name, with special characters in the password escaped as %XX"
        scheme, separator, _ = url.partition("://")
        raise WrongSetting(variable, f"{scheme}://…" if separator else "…", allowed) from None
    if parts.scheme not in SCHEMES[variable]:
        raise WrongSetting(variable, f"{parts.scheme}://…", f"a URL that begins with {usual}://")
    return parts
