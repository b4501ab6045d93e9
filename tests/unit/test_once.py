"""ctx.once refuses what could not be kept, wherever it would be kept."""

import os

import pytest

from workers.once import KEY_LENGTH, LARGEST_BYTES, Memory, on_this_thread, once

SWITCH = "DJANGO_ALLOW_ASYNC_UNSAFE"


def _never() -> None:
    raise AssertionError("the effect happened")


@pytest.mark.parametrize("key", ["", "x" * (KEY_LENGTH + 1), "a\0b", 7])
def test_a_key_that_cannot_be_kept_is_refused_before_the_effect(key: str) -> None:
    with pytest.raises(ValueError, match=f"must be text of 1 to {KEY_LENGTH} characters"):
        once(Memory(), key, _never)
    with pytest.raises(ValueError, match="once key"):
        once(Memory(), key, None)


@pytest.mark.parametrize("key", ["x", "x" * KEY_LENGTH, "é/ 1"])
def test_any_other_key_is_taken(key: str) -> None:
    memory = Memory()
    assert [once(memory, key, None) for _ in range(2)] == [True, False]


@pytest.mark.parametrize("result", [{1, 2}, float("nan"), "a\0b", "x" * (LARGEST_BYTES - 1), "\ud800"])
def test_a_result_that_cannot_be_kept_is_told_in_a_sentence(result: object) -> None:
    memory = Memory()
    with pytest.raises(ValueError, match=r"The result of once\('charge'\)"):
        once(memory, "charge", lambda: result)
    kept = memory.recall("charge")
    assert kept is not None and kept.taken, "the effect has happened, and does not happen again"


def test_a_result_of_the_largest_size_is_kept() -> None:
    memory, result = Memory(), "x" * (LARGEST_BYTES - 2)  # and two quotation marks
    assert once(memory, "charge", lambda: result) == result == once(memory, "charge", _never)


def test_the_first_call_returns_what_later_ones_will() -> None:
    memory = Memory()
    assert once(memory, "charge", lambda: {"pair": (1, 2), 3: "x"}) == {"pair": [1, 2], "3": "x"}
    assert once(memory, "charge", _never) == {"pair": [1, 2], "3": "x"}


def test_keys_do_not_know_of_each_other() -> None:
    memory = Memory()
    assert [once(memory, key, key.upper) for key in ("charge:1", "charge:2")] == ["CHARGE:1", "CHARGE:2"]


@pytest.mark.parametrize("before", [None, "of the handler"])
def test_threads_that_overlap_leave_djangos_switch_as_it_was(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Whichever of them is the last to leave."""
    if before is None:
        monkeypatch.delenv(SWITCH, raising=False)
    else:
        monkeypatch.setenv(SWITCH, before)
    first, second = on_this_thread(), on_this_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[SWITCH] == "true"
    second.__exit__(None, None, None)
    assert os.environ.get(SWITCH) == before
