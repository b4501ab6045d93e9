"""If-Match and If-None-Match, strong and weak (RFC 9110, 13.1)."""

import pytest

from jobs.api.conditions import etag, has_it, must_match
from jobs.api.errors import Problem

TAG = etag({"state": "queued"})


@pytest.mark.parametrize("given", ["*", TAG, f'"other", {TAG}'])
def test_a_job_that_is_as_named_may_be_touched(given: str) -> None:
    must_match({"If-Match": given}, TAG)


@pytest.mark.parametrize("given", ['"other"', f"W/{TAG}", "", "no tag at all"])
def test_another_state_a_weak_tag_and_no_tag_are_no_match(given: str) -> None:
    with pytest.raises(Problem) as raised:
        must_match({"If-Match": given}, TAG)
    assert (raised.value.status, raised.value.headers) == (412, {"ETag": TAG})


@pytest.mark.parametrize("given", ["*", TAG, f"W/{TAG}", f'"other", {TAG}'])
def test_who_has_it_is_sent_nothing_again(given: str) -> None:
    assert has_it({"If-None-Match": given}, TAG)


@pytest.mark.parametrize("headers", [{}, {"If-None-Match": '"other"'}, {"If-None-Match": ""}, {"If-Match": TAG}])
def test_who_has_another_state_or_none_is_sent_it(headers: dict[str, str]) -> None:
    assert not has_it(headers, TAG)
    must_match({}, TAG)


def test_any_change_makes_another_tag() -> None:
    assert etag({"state": "queued", "attempt": 0}) != etag({"state": "queued", "attempt": 1})
