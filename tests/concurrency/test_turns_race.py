"""Callers refused by different web processes are sent to different turns (P10)."""

from tests.concurrency.crowd import Crowd


def test_processes_give_turns_one_spacing_apart(crowd: Crowd, transactional_db: None) -> None:
    """15 s are many times what the calls take, so no two turns may round to the same second."""
    told = crowd.all_do("take_turns", clients=[1, 2, 3, 4], each=4, base=15, spacing=15)
    seconds = sorted(sum(told, []))
    expected = [15 * number for number in range(1, 17)]
    assert all(after - 2 <= one <= after for one, after in zip(seconds, expected, strict=True)), (seconds, told)
