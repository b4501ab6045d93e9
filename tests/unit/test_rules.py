"""The page of rules says that code and tests cite each of them."""

import re
from functools import cache

import pytest

from stack.programs import ROOT

RULES = re.findall(r"^- \*\*(P\d+[a-z]?)\*\*", (ROOT / "docs/rules.md").read_text(), re.MULTILINE)


@cache
def _cited_in(*folders: str) -> frozenset[str]:
    files = [file for folder in folders for kind in ("py", "sql") for file in (ROOT / folder).rglob(f"*.{kind}")]
    return frozenset(number for file in files for number in _cited(file.read_text()))


def _cited(text: str) -> set[str]:
    """Also the middle of a range: P1-P3, with any dash."""
    ranges = re.findall(r"\bP(\d+)[-\u2013]P(\d+)\b", text)
    within = {f"P{number}" for first, last in ranges for number in range(int(first), int(last) + 1)}
    return within | set(re.findall(r"\bP\d+[a-z]?\b", text))


@pytest.mark.parametrize("number", RULES)
def test_the_code_that_keeps_a_rule_cites_it(number: str) -> None:
    assert number in _cited_in("jobs", "workers", "project", "stack")


@pytest.mark.parametrize("number", RULES)
def test_a_test_of_a_rule_cites_it(number: str) -> None:
    assert number in _cited_in("tests")


def test_no_rule_is_listed_twice_and_what_is_cited_is_listed() -> None:
    assert len(RULES) == len(set(RULES)) > 30
    assert _cited_in("jobs", "workers", "project", "stack") <= set(RULES)


def test_a_range_cites_what_lies_within() -> None:
    assert _cited("P1\u2013P3, P7") == {"P1", "P2", "P3", "P7"}
