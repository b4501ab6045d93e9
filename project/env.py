"""The environment variables of this project, each read once, in a stated range or refused in a sentence."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from jobs import server_urls
from jobs.ranges import Range, WrongSetting
from jobs.secret_files import kept_secret

# Variables that set what is not called so in Django's settings.
_OTHERS = (
    "WEIGHBRIDGE_SECRET_KEY",
    "WEIGHBRIDGE_ALLOWED_HOSTS",
    "WEIGHBRIDGE_TRUSTED_ORIGINS",
    "WEIGHBRIDGE_CORS_ORIGINS",
    "WEIGHBRIDGE_LOG_LEVEL",
)
ROOT = Path(__file__).resolve().parent.parent


def number(name: str, default: float, allowed: Range) -> Any:
    return allowed.read(name, os.environ.get(name, default))


def misspelt(environ: Mapping[str, str], settings: Iterable[str]) -> list[str]:
    """A sentence for each variable that is no setting but looks like one; a team's own names look like none."""
    known = {*settings, *_OTHERS}
    return [
        f"The environment variable {given} sets nothing; is {close[0]} meant?"
        for given in sorted(environ)
        if given.startswith("WEIGHBRIDGE_") and given not in known
        if (close := get_close_matches(given, sorted(known), n=1, cutoff=0.85))
    ]


def names(name: str) -> list[str]:
    """A comma-separated list."""
    return [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]


def all_https(origins: Sequence[str]) -> bool:
    """Whether there is an origin, and none that begins otherwise."""
    return bool(origins) and all(origin.startswith("https://") for origin in origins)


def data_dir() -> Path:
    """Where everything lies that a running stack writes; relative to the checkout."""
    return ROOT / (os.environ.get("WEIGHBRIDGE_DATA_DIR") or ".data")


def address(name: str, data: Path) -> str:
    """DATABASE_URL or REDIS_URL: from the environment, else as the stack in this data directory wrote it down.

    Empty if neither is there: commands that need no server still run.
    """
    url: str = os.environ.get(name) or _kept_addresses(data).get(name, "")
    if url:
        server_urls.parts_of(name, url)
    return url


def _kept_addresses(data: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads((data / "addresses.json").read_text()))
    except (OSError, ValueError):
        return {}


def postgres(url: str) -> dict[str, Any]:
    """Django's DATABASES entry for a postgresql:// URL."""
    parts = urlsplit(url)
    return {
        "NAME": unquote(parts.path.lstrip("/")) or "weighbridge",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "127.0.0.1",
        "PORT": parts.port or 5432,
        "OPTIONS": dict(parse_qsl(parts.query)),  # sslmode and its like, as libpq names them
    }


def secret_key(data: Path) -> str:
    """Django's SECRET_KEY: from the environment, else made once and kept in the data directory."""
    given = os.environ.get("WEIGHBRIDGE_SECRET_KEY")
    if given:
        return given
    try:
        data.mkdir(parents=True, exist_ok=True)
        return kept_secret(data / "secret-key", size_bytes=48)
    except OSError as error:
        raise WrongSetting(
            "WEIGHBRIDGE_DATA_DIR", str(data), f"a directory that can be written ({error.strerror})"
        ) from None
