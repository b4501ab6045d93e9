"""The measurements' own arithmetic and client are right: a figure is of what it says, or there is none."""

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from bench.figures import Spread, percentile, ratios, spread
from bench.load import Connection, Unexpected, drive, request
from bench.processes import server_ends
from bench.tables import shown, table

ASKED = request("GET", "/healthz")
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\n\r\nbusy"


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile(range(100, 0, -1), 0.99) == 99
    assert percentile([1.0, 2.0, 10.0], 0.50) == 2.0
    assert percentile([7.0], 0.99) == 7.0


def test_ratios_are_taken_round_by_round() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0)
    assert ratios([10.0, 100.0, 20.0], [5.0, 50.0, 10.0]) == Spread(2.0, 2.0, 2.0), "a drift of both is no difference"


def test_words_stand_to_the_left_and_figures_to_the_right() -> None:
    assert table(("way", "ms"), [("a", "10.5"), ("longer", "1.0")]) == [
        "  way       ms",
        "  a       10.5",
        "  longer   1.0",
    ]
    assert shown(Spread(1234.5, 1.0, 2000.0)) == "1,234 (1 to 2,000)"


@contextmanager
def _server(pieces: Sequence[bytes]) -> Iterator[int]:
    """Answers each request of each connection with the pieces, sent one by one; a last empty one closes. Its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(8) as threads:

        def answer(connection: socket.socket) -> None:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while connection.recv(65_536):
                    for piece in pieces:
                        if not piece:
                            return
                        connection.sendall(piece)

        def accept() -> None:
            while True:
                try:
                    threads.submit(answer, listening.accept()[0])
                except OSError:
                    return

        threads.submit(accept)
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_every_request_is_answered_and_timed_once() -> None:
    with _server([GOOD[:20], GOOD[20:-1], GOOD[-1:]]) as port:
        driven = drive(port, ASKED, count=50, connections=4, expected=200)
    assert len(driven.latencies) == 50
    assert min(driven.latencies) > 0
    assert max(driven.latencies) <= driven.seconds
    assert driven.per_second == 50 / driven.seconds


def test_another_answer_than_expected_is_no_measurement() -> None:
    with _server([BUSY]) as port, pytest.raises(Unexpected, match=r"Of 5 answers not all were 202: \{503: 5\}.*busy"):
        drive(port, ASKED, count=5, connections=2, expected=202)


def test_a_connection_that_closes_is_no_measurement() -> None:
    with _server([GOOD[:-1], b""]) as port, pytest.raises(Unexpected, match="closed a connection"):
        drive(port, ASKED, count=1, connections=1, expected=200)


def test_a_connection_counts_until_the_server_has_closed_its_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        caller = Connection(port)
        theirs = listening.accept()[0]
        assert server_ends(port, {caller.port}) == 1
        caller.socket.close()
        assert server_ends(port, {caller.port}) == 1
        theirs.close()
        assert server_ends(port, {caller.port}) == 0


def test_a_measurement_that_there_is_not_is_refused_before_anything_starts() -> None:
    done = subprocess.run([sys.executable, "-m", "bench", "severing"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "there is no measurement 'severing'; there are waiting, serving, held" in done.stderr
