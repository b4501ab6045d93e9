"""Loopback ports: asked for, free, and kept between starts in `<data dir>/ports.json`."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterable
from pathlib import Path

from jobs.secret_files import write_private
from stack.failures import StackError

DEFAULT_WEB_PORT = 8000
LOWEST = 10_240
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            # Under SO_REUSEADDR two sockets may bind one port; only one may listen.
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(avoid: Iterable[int] = ()) -> int:
    """A free loopback port below the kernel's ephemeral range.

    Ports of the ephemeral range are lent to outgoing connections: while a server is down for a restart, a client that
    keeps knocking could be given the server's own port as its source, connect to itself and keep the server out.
    """
    taken = set(avoid)
    for _ in range(200):
        port = random.randrange(LOWEST, _first_ephemeral())
        if port not in taken and is_free(port):
            return port
    raise StackError("No free loopback port was found in 200 tries.")


def _first_ephemeral() -> int:
    try:
        first = int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
    return first if first > LOWEST + 1_000 else 32_768


def kept_ports(data_dir: Path, names: Iterable[str]) -> dict[str, int]:
    """A free port for each name: the one used last time while it is free, else a new one, which is kept."""
    file = data_dir / "ports.json"
    before = _read(file)
    ports = dict(before)
    for name in names:
        port = ports.get(name)
        if port is None or not is_free(port) or _used_by_another(ports, name):
            ports[name] = free_port(avoid=ports.values())
    if ports != before:
        write_private(file, json.dumps(ports, indent=1) + "\n")
    return {name: ports[name] for name in names}


def _used_by_another(ports: dict[str, int], name: str) -> bool:
    return any(other != name and port == ports[name] for other, port in ports.items())


def _read(file: Path) -> dict[str, int]:
    """The ports kept so far; an unreadable or half-written file counts as none."""
    try:
        kept = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(kept, dict):
        return {}
    return {name: port for name, port in kept.items() if type(port) is int and 0 < port < 65_536}


def web_port(data_dir: Path, asked: str | None) -> tuple[int, str | None]:
    """The port of the web server and, when it is not the expected one, a sentence that says so.

    `asked` is WEIGHBRIDGE_PORT as given, or None. Raises StackError when the asked port is taken.
    """
    if asked:
        return _asked_port(asked), None
    if is_free(DEFAULT_WEB_PORT):
        return DEFAULT_WEB_PORT, None
    port = kept_ports(data_dir, ["web"])["web"]
    return (
        port,
        f"Port {DEFAULT_WEB_PORT} is taken, so the web server listens on {port} (WEIGHBRIDGE_PORT chooses another).",
    )


def _asked_port(asked: str) -> int:
    if not asked.isascii() or not asked.isdigit() or not 1 <= int(asked) <= 65_535:
        raise StackError(f"WEIGHBRIDGE_PORT is {asked!r}; it must be a whole number from 1 to 65535.")
    if not is_free(int(asked)):
        raise StackError(f"Port {asked} (WEIGHBRIDGE_PORT) is taken by another program; free it or choose another.")
    return int(asked)
