"""A strict reader of TSPLIB tour problems with nodes in the plane (TYPE TSP, EDGE_WEIGHT_TYPE EUC_2D).

Strict and our own, because it guards the door. vrplib, which PyVRP reads with, drops the node ids, so it
cannot see a duplicate or a missing one; it takes NaN, any DIMENSION and a NAME that contains "EOF" for an
end; and it would bring numpy into the web processes. This one needs the standard library only, reads each
line once, and says what is wrong in one sentence that names the line.

Source of the format: G. Reinelt, TSPLIB 95. Its keywords are upper case; nodes are numbered from 1.
"""

import re
from typing import NamedTuple

MIN_NODES = 3  # two points have one round tour
MAX_NODES = 2_000  # their distances take about 200 MB of a worker, and the first pass of a search 0.4 s
MAX_COORDINATE = 100_000_000  # metres around the Earth fit twice; the longest tour stays far below 2**44

_HEADINGS = ("NAME", "TYPE", "COMMENT", "DIMENSION", "EDGE_WEIGHT_TYPE", "NODE_COORD_TYPE", "DISPLAY_DATA_TYPE")
_SECTION = "NODE_COORD_SECTION"
_EOF = "EOF"
_LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines would also cut a comment at U+2028
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
# int() and float() alone would take "1_000", other scripts' digits and numbers of a million digits.
_WHOLE = re.compile(r"[0-9]{1,9}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class WrongTsplib(ValueError):
    """A text that is no problem this reader takes; str() is one sentence for the person who sent it."""


class Node(NamedTuple):
    """One point: its id in the file (from 1) and its coordinates, finite and at most MAX_COORDINATE from 0."""

    id: int
    x: float
    y: float


class _Line(NamedTuple):
    number: int
    text: str


def read_nodes(text: str) -> tuple[Node, ...]:
    """The nodes of `text` in order of id, which runs from 1 to their count. Raises WrongTsplib."""
    if "\0" in text:  # PostgreSQL stores no NUL in a text, so such a job could not be kept
        raise WrongTsplib("The text contains a NUL character.")
    headings, rows = _split(text)
    _check_kind(headings)
    size = _dimension(headings)
    nodes = _distinct_nodes(rows, size)
    _check_complete(nodes, size)
    return tuple(nodes[node_id] for node_id in sorted(nodes))


def _split(text: str) -> tuple[dict[str, str], list[_Line]]:
    """The headings by keyword, and the lines between NODE_COORD_SECTION and EOF (or the end)."""
    lines = [_Line(number, raw.strip()) for number, raw in enumerate(_LINE_END.split(text), start=1)]
    lines = [line for line in lines if line.text]
    section = next((i for i, line in enumerate(lines) if line.text.rstrip(" :") == _SECTION), None)
    if section is None:
        # A bad heading explains a missing section better than its absence does.
        _headings(lines)
        raise WrongTsplib(f"There is no {_SECTION}.")
    return _headings(lines[:section]), _until_eof(lines[section + 1 :])


def _headings(lines: list[_Line]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        keyword, colon, value = (part.strip() for part in line.text.partition(":"))
        if not colon:
            raise WrongTsplib(f"Line {line.number}: {_shown(line.text)} is neither 'KEYWORD: value' nor {_SECTION}.")
        if keyword not in _HEADINGS:
            raise WrongTsplib(f"Line {line.number}: keyword {_shown(keyword)} is not one of {', '.join(_HEADINGS)}.")
        if keyword in found and keyword != "COMMENT":
            raise WrongTsplib(f"Line {line.number}: {keyword} is given twice.")
        found[keyword] = value
    return found


def _until_eof(lines: list[_Line]) -> list[_Line]:
    end = next((i for i, line in enumerate(lines) if line.text == _EOF), len(lines))
    if end + 1 < len(lines):
        raise WrongTsplib(f"Line {lines[end + 1].number}: there is text after {_EOF}.")
    return lines[:end]


def _check_kind(headings: dict[str, str]) -> None:
    for keyword, wanted in (("TYPE", "TSP"), ("EDGE_WEIGHT_TYPE", "EUC_2D")):
        if keyword not in headings:
            raise WrongTsplib(f"{keyword} is missing; it must be {wanted}.")
        # Some published files add their author's name: "TYPE : TSP (M.~Hofmeister)".
        if headings[keyword].split()[:1] != [wanted]:
            raise WrongTsplib(f"{keyword} is {_shown(headings[keyword])}, but only {wanted} is solved.")
    if headings.get("NODE_COORD_TYPE", "TWOD_COORDS") != "TWOD_COORDS":
        raise WrongTsplib(f"NODE_COORD_TYPE is {_shown(headings['NODE_COORD_TYPE'])}, but must be TWOD_COORDS.")


def _dimension(headings: dict[str, str]) -> int:
    if "DIMENSION" not in headings:
        raise WrongTsplib("DIMENSION is missing.")
    given = headings["DIMENSION"]
    if not _WHOLE.fullmatch(given):
        raise WrongTsplib(f"DIMENSION is {_shown(given)}, but must be a whole number from {MIN_NODES} to {MAX_NODES}.")
    size = int(given)
    if size < MIN_NODES:
        raise WrongTsplib(f"DIMENSION is {size}; a round tour needs at least {MIN_NODES} nodes.")
    if size > MAX_NODES:
        raise WrongTsplib(f"DIMENSION is {size}; at most {MAX_NODES} nodes are taken.")
    return size


def _distinct_nodes(rows: list[_Line], size: int) -> dict[int, Node]:
    nodes: dict[int, Node] = {}
    for line in rows:
        node = _node(line)
        if not 1 <= node.id <= size:
            raise WrongTsplib(f"Line {line.number}: node id {node.id} is outside 1 to {size}, which DIMENSION gives.")
        if node.id in nodes:
            raise WrongTsplib(f"Line {line.number}: node id {node.id} is there twice.")
        nodes[node.id] = node
    return nodes


def _node(line: _Line) -> Node:
    fields = line.text.split()
    if len(fields) != 3:
        raise WrongTsplib(f"Line {line.number}: {_shown(line.text)} is not 'id x y'.")
    if not _WHOLE.fullmatch(fields[0]):
        raise WrongTsplib(f"Line {line.number}: node id {_shown(fields[0])} is not a whole number.")
    return Node(int(fields[0]), _coordinate(fields[1], line.number), _coordinate(fields[2], line.number))


def _coordinate(field: str, line_number: int) -> float:
    if _NOT_FINITE.fullmatch(field):
        raise WrongTsplib(f"Line {line_number}: coordinate {_shown(field)} is not a finite number.")
    if not _DECIMAL.fullmatch(field):
        raise WrongTsplib(f"Line {line_number}: coordinate {_shown(field)} is not a number.")
    value = float(field)
    if abs(value) > MAX_COORDINATE:  # also "1e999", which float() makes infinite
        raise WrongTsplib(f"Line {line_number}: coordinate {_shown(field)} is more than {MAX_COORDINATE} from 0.")
    return value


def _check_complete(nodes: dict[int, Node], size: int) -> None:
    if len(nodes) < size:
        missing = next(node_id for node_id in range(1, size + 1) if node_id not in nodes)
        raise WrongTsplib(f"DIMENSION is {size}, but there are {len(nodes)} nodes; the first missing id is {missing}.")


def _shown(text: str) -> str:
    """What was found, quoted, and short enough for a sentence."""
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
