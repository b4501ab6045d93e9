"""A CSV file as columns of numbers. What is wrong with one is told to its caller, by line.

Rows are read one by one and only numbers are kept, eight bytes each, so that a file of 64 MiB does not become gigabytes of text.
"""

import csv
import io
import math
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from workers.failures import Fail

MAX_COLUMNS = 200
MAX_ROWS = 2_000_000
LONGEST_FIELD = 10_000  # characters
MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})
_CHECKED_ROWS = 2_000  # between two looks at limits; 7 ms with five columns


@dataclass
class Column:
    """count: fields that are there; values: the numbers among them, as long as all are numbers."""

    name: str
    count: int = 0
    missing: int = 0
    all_numbers: bool = True
    values: "array[float]" = field(default_factory=lambda: array("d"))

    @property
    def numeric(self) -> bool:
        return self.all_numbers and self.count > 0

    def add(self, text: str) -> None:
        text = text.strip()
        if text in MISSING:
            self.missing += 1
            return
        self.count += 1
        if self.all_numbers:
            self._add_number(text)

    def _add_number(self, text: str) -> None:
        try:
            number = float(text)
        except ValueError:
            number = math.inf
        if math.isfinite(number) and "_" not in text:  # 1_000 is Python's, not a CSV file's
            self.values.append(number)
        else:
            self.all_numbers, self.values = False, array("d")


@dataclass(frozen=True)
class Table:
    rows: int
    columns: list[Column]


def read_table(file: BinaryIO, delimiter: str, go_on: Callable[[int], None]) -> Table:
    """Calls `go_on` with the number of rows now and then. Raises Fail: not_csv, not_utf8, too_many_rows, too_many_columns."""
    lines = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), delimiter=delimiter, strict=True)
    usual = csv.field_size_limit(LONGEST_FIELD)  # of the whole process, so it is put back
    try:
        columns = _named(next(lines, []))
        rows = _filled(columns, lines, go_on)
    except UnicodeDecodeError:
        raise Fail("not_utf8", f"Line {_first_not_utf8(file)} of the file is not UTF-8 text.") from None
    except csv.Error as error:
        raise Fail("not_csv", f"Line {lines.line_num} is not CSV: {error}.") from None
    finally:
        csv.field_size_limit(usual)
    return Table(rows, columns)


def _first_not_utf8(file: BinaryIO) -> int:
    """By its number. The reader does not know: it is given whole pieces of text, and none of the one that cannot be decoded."""
    file.seek(0)
    # No byte of a longer character is that of a new line.
    return next(number for number, line in enumerate(file, 1) if not _is_utf8(line))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _named(names: list[str]) -> list[Column]:
    if not any(name.strip() for name in names):
        raise Fail("not_csv", "The first line names no columns.")
    if len(names) > MAX_COLUMNS:
        raise Fail("too_many_columns", f"The file has {len(names)} columns; at most {MAX_COLUMNS} are read.")
    if any("\0" in name for name in names):
        raise Fail("not_csv", "A name of a column holds the character U+0000.")
    return [Column(name.strip() or f"column {number}") for number, name in enumerate(names, 1)]


def _filled(columns: list[Column], lines: "Iterator[list[str]]", go_on: Callable[[int], None]) -> int:
    rows = 0
    for row in lines:
        if not row:  # an empty line
            continue
        if len(row) != len(columns):
            raise Fail("not_csv", f"Row {rows + 1} has {len(row)} fields; the first line names {len(columns)} columns.")
        if rows == MAX_ROWS:
            raise Fail("too_many_rows", f"The file has more than {MAX_ROWS} rows.")
        rows += 1
        for column, text in zip(columns, row, strict=True):
            column.add(text)
        if rows % _CHECKED_ROWS == 0:
            go_on(rows)
    return rows
