"""reports.statistics: its figures are those of another computation, and what is wrong with a file is told by its line."""

import csv
import io
import statistics
from pathlib import Path
from typing import Any

import pytest

from stack.programs import ROOT
from workers.catalog import csv_table
from workers.testing import Ran, run, upload_id

PENGUINS = ROOT / "stack/demo_data/penguins.csv"
PNG = b"\x89PNG\r\n\x1a\n"
FILE = upload_id()


def report(content: bytes | str | Path, **params: Any) -> Ran:
    given = content.encode() if isinstance(content, str) else content
    return run("reports.statistics", {"file": FILE, "chart": False, **params}, uploads={FILE: given})


def columns(ran: Ran) -> dict[str, dict[str, Any]]:
    assert ran.state == "succeeded", ran
    return {column["name"]: column for column in ran.result["columns"]}


@pytest.fixture(scope="module")
def penguins() -> Ran:
    return report(PENGUINS, chart=True)


def test_the_figures_of_a_real_file_are_those_of_pythons_own_statistics(penguins: Ran) -> None:
    with PENGUINS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    found = columns(penguins)
    assert penguins.result["rows"] == len(rows) == 344
    numeric = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g", "year"]
    assert [name for name, column in found.items() if column["numeric"]] == numeric
    for name in numeric:
        values = [float(row[name]) for row in rows if row[name] != "NA"]
        q25, median, q75 = statistics.quantiles(values, n=4, method="inclusive")
        assert found[name]["count"] == len(values)
        assert found[name]["missing"] == len(rows) - len(values)
        expected = {
            "mean": statistics.fmean(values),
            "std": statistics.stdev(values),
            "min": min(values),
            "q25": q25,
            "median": median,
            "q75": q75,
            "max": max(values),
        }
        assert {figure: found[name][figure] for figure in expected} == pytest.approx(expected, rel=1e-12)


def test_columns_of_words_are_counted(penguins: Ran) -> None:
    found = columns(penguins)
    assert found["sex"] == {"name": "sex", "numeric": False, "count": 333, "missing": 11}
    assert found["species"]["count"] == 344


def test_the_table_and_the_chart_are_left_as_files(penguins: Ran) -> None:
    assert set(penguins.artifacts) == {"statistics.csv", "chart.png"}
    chart = penguins.artifacts["chart.png"]
    assert (chart.content_type, chart.data[:8]) == ("image/png", PNG)
    assert len(chart.data) > 5_000
    table = list(csv.DictReader(io.StringIO(penguins.artifacts["statistics.csv"].data.decode())))
    assert [float(row["mean"]) for row in table if row["mean"]] == pytest.approx(
        [column["mean"] for column in columns(penguins).values() if column["numeric"]]
    )


def test_a_chart_is_drawn_only_of_numbers_and_if_wanted() -> None:
    assert set(report("a\nx\n", chart=True).artifacts) == {"statistics.csv"}
    assert set(report("a\n1\n").artifacts) == {"statistics.csv"}


def test_a_name_that_looks_like_mathematics_and_a_spreadsheets_formula_is_text() -> None:
    ran = report("$x^$,=1+1\n1,2\n3,5\n", chart=True)
    assert "chart.png" in ran.artifacts
    assert ran.artifacts["statistics.csv"].data.decode().splitlines()[2].startswith("'=1+1,")


@pytest.mark.parametrize(
    ("text", "numeric", "count", "missing"),
    [
        ("a\n1\n\n2.5\n-3e2\n", True, 3, 0),
        ("a\n 1 \nNA\nnan\n", True, 1, 2),
        ("a\n1\nx\n", False, 2, 0),
        ("a\nNA\n", False, 0, 1),
        ("a\n1_000\n", False, 1, 0),
        ("a\ninf\n", False, 1, 0),
        ("a\n1e999\n", False, 1, 0),
        ("a\n", False, 0, 0),
        ("\ufeffa\n1\n", True, 1, 0),
        ("a\r\n1\r\n", True, 1, 0),
        ('a\n"1"\n', True, 1, 0),
    ],
)
def test_what_counts_as_a_number_and_as_missing(text: str, numeric: bool, count: int, missing: int) -> None:
    found = columns(report(text))["a"]
    assert (found["numeric"], found["count"], found["missing"]) == (numeric, count, missing)


def test_a_single_value_has_no_spread_and_what_no_double_holds_is_null() -> None:
    assert columns(report("a\n5\n"))["a"]["std"] is None
    largest = columns(report("a\n1e308\n1.5e308\n"))["a"]
    assert (largest["mean"], largest["max"]) == (None, 1.5e308)
    assert "chart.png" in report("a\n-1.7e308\n1.7e308\n", chart=True).artifacts


@pytest.mark.parametrize(("delimiter", "character"), [("semicolon", ";"), ("tab", "\t")])
def test_other_delimiters_are_said(delimiter: str, character: str) -> None:
    assert set(columns(report(f"a{character}b\n1{character}2\n", delimiter=delimiter))) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        (b"", "not_csv", "names no columns"),
        (b",,\n1,2,3\n", "not_csv", "names no columns"),
        (b"a,b\n1,2\n1\n", "not_csv", "Row 2 has 1 fields; the first line names 2"),
        (b'a\n"1\n', "not_csv", "Line 2 is not CSV"),
        (b'a\n"1"x\n', "not_csv", "Line 2 is not CSV"),
        (b"a\n" + b"x" * 10_001, "not_csv", "is not CSV"),
        (b"a\0\n1\n", "not_csv", "U+0000"),
        (b"a\n\xff\n", "not_utf8", "Line 2 of the file is not UTF-8"),
        (b"a\n" + b"1\n" * 9_000 + b"\xff\n", "not_utf8", "Line 9002 of the file is not UTF-8"),
        (b"a\n1\n\xc3", "not_utf8", "Line 3 of the file is not UTF-8"),
        ("a\n1\n".encode("utf-16"), "not_utf8", "not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not_utf8", "not UTF-8"),
        (b",".join([b"a"] * 201), "too_many_columns", "201 columns"),
    ],
)
def test_what_is_no_csv_file_is_told(content: bytes, code: str, says: str) -> None:
    ran = report(content)
    assert (ran.state, ran.error_code) == ("failed", code)
    assert says in ran.error_message
    assert ran.artifacts == {}


def test_there_is_an_end_to_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_ROWS", 2)
    assert report("a\n1\n2\n").result["rows"] == 2
    assert report("a\n1\n2\n3\n").error_code == "too_many_rows"


def test_the_process_reads_csv_as_before() -> None:
    before = csv.field_size_limit()
    report(b"a\n" + b"x" * 10_001)
    assert csv.field_size_limit() == before


def test_a_cancel_ends_a_long_file_between_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "_CHECKED_ROWS", 1)
    ran = run("reports.statistics", {"file": FILE}, uploads={FILE: b"a\n1\n2\n"}, cancel_at=0)
    assert (ran.state, ran.artifacts) == ("cancelled", {})
