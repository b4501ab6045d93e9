"""What the TSPLIB reader takes, and the sentence it gives for what it does not."""

import pytest

from workers.catalog.tsplib import MAX_COORDINATE, MAX_NODES, Node, WrongTsplib, read_nodes

ROWS = ["1 0 0", "2 3.5 -4e1", "3 .5 +7."]


def problem(rows=ROWS, dimension="3", **changed):
    """A problem's text; a heading set to None is left out."""
    headings = {"NAME": "three", "TYPE": "TSP", "DIMENSION": dimension, "EDGE_WEIGHT_TYPE": "EUC_2D"} | changed
    lines = [f"{keyword}: {value}" for keyword, value in headings.items() if value is not None]
    return "\n".join([*lines, "NODE_COORD_SECTION", *rows, "EOF"]) + "\n"


def grid(count):
    return [f"{number} {number % 40} {number // 40}" for number in range(1, count + 1)]


def test_reads_ids_and_coordinates():
    assert read_nodes(problem()) == (Node(1, 0.0, 0.0), Node(2, 3.5, -40.0), Node(3, 0.5, 7.0))


def test_nodes_come_in_order_of_id_however_the_file_orders_them():
    assert [node.id for node in read_nodes(problem(["3 1 1", "1 2 2", "2 3 3"]))] == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        problem().replace("\n", "\r\n"),
        problem().replace("\n", "\r"),
        problem().replace("EOF\n", ""),
        problem().replace("EOF\n", "EOF\n\n  \n"),
        problem().replace(": ", " : "),
        problem().replace("NODE_COORD_SECTION", "  NODE_COORD_SECTION :"),
        problem(TYPE="TSP (M.~Hofmeister)"),
        problem(NAME="EOF"),
        problem(COMMENT="a: b\nCOMMENT: NODE_COORD_SECTION follows\u2028soon"),
        problem(NODE_COORD_TYPE="TWOD_COORDS", DISPLAY_DATA_TYPE="COORD_DISPLAY"),
    ],
    ids=[
        "crlf",
        "cr",
        "no eof",
        "blank end",
        "space colon",
        "section colon",
        "type note",
        "name eof",
        "comments",
        "types",
    ],
)
def test_takes_the_ways_published_files_are_written(text):
    assert [node.id for node in read_nodes(text)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "There is no NODE_COORD_SECTION."),
        ("hello", "Line 1: 'hello' is neither 'KEYWORD: value' nor NODE_COORD_SECTION."),
        ("NAME: x\nTYPE: TSP\n", "There is no NODE_COORD_SECTION."),
        (problem(NAME="a\0b"), "The text contains a NUL character."),
        (problem(TYPE=None), "TYPE is missing; it must be TSP."),
        (problem(TYPE="ATSP"), "TYPE is 'ATSP', but only TSP is solved."),
        (problem(TYPE=""), "TYPE is '', but only TSP is solved."),
        (problem(EDGE_WEIGHT_TYPE=None), "EDGE_WEIGHT_TYPE is missing; it must be EUC_2D."),
        (problem(EDGE_WEIGHT_TYPE="GEO"), "EDGE_WEIGHT_TYPE is 'GEO', but only EUC_2D is solved."),
        (problem(EDGE_WEIGHT_TYPE="EUC_3D"), "EDGE_WEIGHT_TYPE is 'EUC_3D', but only EUC_2D is solved."),
        (problem(NODE_COORD_TYPE="THREED_COORDS"), "NODE_COORD_TYPE is 'THREED_COORDS', but must be TWOD_COORDS."),
        (
            problem(CAPACITY="9"),
            (
                "Line 5: keyword 'CAPACITY' is not one of NAME, TYPE, COMMENT, DIMENSION, EDGE_WEIGHT_TYPE, "
                "NODE_COORD_TYPE, DISPLAY_DATA_TYPE."
            ),
        ),
        (problem(NAME="x\nTYPE: TSP"), "Line 3: TYPE is given twice."),
        (problem(dimension=None), "DIMENSION is missing."),
        (problem(dimension="three"), "DIMENSION is 'three', but must be a whole number from 3 to 2000."),
        (problem(dimension="3.0"), "DIMENSION is '3.0', but must be a whole number from 3 to 2000."),
        (problem(dimension="-3"), "DIMENSION is '-3', but must be a whole number from 3 to 2000."),
        (problem(dimension="9" * 10), "DIMENSION is '9999999999', but must be a whole number from 3 to 2000."),
        (problem(dimension="4"), "DIMENSION is 4, but there are 3 nodes; the first missing id is 4."),
        (problem(ROWS[:2]), "DIMENSION is 3, but there are 2 nodes; the first missing id is 3."),
        (problem(ROWS[1:]), "DIMENSION is 3, but there are 2 nodes; the first missing id is 1."),
        (problem([]), "DIMENSION is 3, but there are 0 nodes; the first missing id is 1."),
        (problem([*ROWS, "4 1 1"]), "Line 9: node id 4 is outside 1 to 3, which DIMENSION gives."),
        (problem(["0 1 1", *ROWS]), "Line 6: node id 0 is outside 1 to 3, which DIMENSION gives."),
        (problem([*ROWS, "2 1 1"]), "Line 9: node id 2 is there twice."),
        (problem(["1 0 0", "1 0 0", "2 1 1"]), "Line 7: node id 1 is there twice."),
        (problem(["a 0 0", *ROWS[1:]]), "Line 6: node id 'a' is not a whole number."),
        (problem(["-1 0 0", *ROWS[1:]]), "Line 6: node id '-1' is not a whole number."),
        (problem(["0 0", *ROWS[1:]]), "Line 6: '0 0' is not 'id x y'."),
        (problem(["1 0 0 0", *ROWS[1:]]), "Line 6: '1 0 0 0' is not 'id x y'."),
        (problem(["1 NaN 0", *ROWS[1:]]), "Line 6: coordinate 'NaN' is not a finite number."),
        (problem(["1 0 inf", *ROWS[1:]]), "Line 6: coordinate 'inf' is not a finite number."),
        (problem(["1 -Infinity 0", *ROWS[1:]]), "Line 6: coordinate '-Infinity' is not a finite number."),
        (problem(["1 1,5 0", *ROWS[1:]]), "Line 6: coordinate '1,5' is not a number."),
        (problem(["1 1_000 0", *ROWS[1:]]), "Line 6: coordinate '1_000' is not a number."),
        (problem(["1 ٣ 0", *ROWS[1:]]), "Line 6: coordinate '٣' is not a number."),
        (problem(["1 . 0", *ROWS[1:]]), "Line 6: coordinate '.' is not a number."),
        (problem(["1 1e999 0", *ROWS[1:]]), "Line 6: coordinate '1e999' is more than 100000000 from 0."),
        (problem([*ROWS, "DISPLAY_DATA_SECTION"]), "Line 9: 'DISPLAY_DATA_SECTION' is not 'id x y'."),
        (problem([*ROWS, "EOF", "NAME: next"]), "Line 10: there is text after EOF."),
        (problem(["x" * 1000]), f"Line 6: '{'x' * 40}…' is not 'id x y'."),
    ],
)
def test_refuses_with_one_sentence(text, sentence):
    with pytest.raises(WrongTsplib) as refused:
        read_nodes(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("count", [3, MAX_NODES])
def test_takes_the_smallest_and_the_largest_problem(count):
    assert len(read_nodes(problem(grid(count), str(count)))) == count


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (2, "DIMENSION is 2; a round tour needs at least 3 nodes."),
        (MAX_NODES + 1, "DIMENSION is 2001; at most 2000 nodes are taken."),
    ],
)
def test_refuses_one_node_less_and_one_node_more(count, sentence):
    with pytest.raises(WrongTsplib) as refused:
        read_nodes(problem(grid(count), str(count)))
    assert str(refused.value) == sentence


@pytest.mark.parametrize("value", [MAX_COORDINATE, -MAX_COORDINATE])
def test_takes_a_coordinate_at_the_bound_and_none_beyond(value):
    assert read_nodes(problem([f"1 {value} 0", *ROWS[1:]]))[0].x == value
    with pytest.raises(WrongTsplib, match="is more than 100000000 from 0"):
        read_nodes(problem([f"1 {value}.1 0", *ROWS[1:]]))
