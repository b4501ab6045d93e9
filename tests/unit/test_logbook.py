"""The end of what a handler logged is kept, in whole lines."""

import logging
from pathlib import Path

from workers.logbook import KEPT_BYTES, Logbook, tail


def _write(book: Logbook, text: str) -> None:
    book.emit(logging.LogRecord("x", logging.INFO, "", 0, text, None, None))


def test_lines_are_kept_until_the_next_attempt(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log")
    _write(book, "one")
    _write(book, "two")
    assert book.text() == "one\ntwo\n"
    book.begin()
    assert book.text() == ""


def test_of_much_the_last_64_kib(tmp_path: Path) -> None:
    book = Logbook(tmp_path / "log")
    for number in range(30_000):
        _write(book, f"line {number}")
    lines = book.text().splitlines()
    assert lines[-1] == "line 29999"
    assert lines[0].startswith("line ")
    assert KEPT_BYTES - 20 < len(book.text()) <= KEPT_BYTES
    assert (tmp_path / "log").stat().st_size <= 2 * KEPT_BYTES + 20


def test_a_cut_off_first_line_is_left_out() -> None:
    assert tail(b"x" * KEPT_BYTES + b"\nlast\n") == "last\n"


def test_what_cannot_be_stored_is_replaced() -> None:
    assert tail(b"a\0b\xff\n") == "a\ufffdb\ufffd\n"


def test_of_one_line_that_is_longer_than_all_that_is_kept_the_end_is_kept() -> None:
    kept = tail(b"before\n" + b"x" * KEPT_BYTES + b"the end\n")
    assert kept.endswith("the end\n")
    assert len(kept) == KEPT_BYTES
