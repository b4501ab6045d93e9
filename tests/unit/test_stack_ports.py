"""Every port is a free one of the loopback; those of the servers are kept from start to start."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stack import ports
from stack.failures import StackError


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_with_a_listener_is_not_free(taken: int) -> None:
    assert not ports.is_free(taken)
    assert ports.is_free(ports.free_port())


def test_a_chosen_port_is_never_one_that_the_kernel_lends_to_outgoing_connections() -> None:
    first_ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(ports.LOWEST <= ports.free_port() < first_ephemeral for _ in range(20))


def test_ports_are_kept_while_they_are_free(tmp_path: Path) -> None:
    first = ports.kept_ports(tmp_path, ["postgres", "valkey"])
    assert len(set(first.values())) == 2
    assert ports.kept_ports(tmp_path, ["postgres", "valkey"]) == first


def test_a_kept_port_that_is_taken_is_replaced_and_the_others_stay(tmp_path: Path, taken: int) -> None:
    other = ports.free_port()
    (tmp_path / "ports.json").write_text(json.dumps({"postgres": taken, "valkey": other}))
    chosen = ports.kept_ports(tmp_path, ["postgres", "valkey"])
    assert chosen["postgres"] not in (taken, other)
    assert chosen["valkey"] == other
    assert json.loads((tmp_path / "ports.json").read_text()) == chosen


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"postgres": "x"}', '{"postgres": 70000}', '{"postgres": true}'])
def test_an_unreadable_ports_file_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    assert ports.kept_ports(tmp_path, ["postgres"])["postgres"] >= ports.LOWEST


def test_an_asked_port_that_is_taken_is_refused_in_a_sentence(tmp_path: Path, taken: int) -> None:
    with pytest.raises(StackError, match=rf"^Port {taken} \(WEIGHBRIDGE_PORT\) is taken"):
        ports.web_port(tmp_path, str(taken))


@pytest.mark.parametrize("asked", ["0", "65536", "-1", "8000.0", "http", "٨٠٠٠"])
def test_a_port_out_of_range_is_refused_in_a_sentence(tmp_path: Path, asked: str) -> None:
    with pytest.raises(StackError, match="must be a whole number from 1 to 65535"):
        ports.web_port(tmp_path, asked)


def test_without_a_wish_a_taken_default_gives_a_kept_free_port_and_says_so(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "DEFAULT_WEB_PORT", taken)
    port, remark = ports.web_port(tmp_path, None)
    assert port != taken
    assert remark is not None
    assert f"Port {taken} is taken" in remark
    assert str(port) in remark
    assert ports.web_port(tmp_path, None)[0] == port


def test_without_a_wish_a_free_default_is_used_and_nothing_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = ports.free_port()
    monkeypatch.setattr(ports, "DEFAULT_WEB_PORT", free)
    assert ports.web_port(tmp_path, None) == (free, None)
