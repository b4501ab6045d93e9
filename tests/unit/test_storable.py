"""U+0000 is found wherever jsonb would meet it."""

import pytest

from jobs.storable import holds_nul


@pytest.mark.parametrize(
    "value",
    ["\0", "a\0b", ["a", "\0"], {"a": "\0"}, {"\0": 1}, {"a": [{"b": ("x", "y\0")}]}, [[[["\0"]]]]],
)
def test_a_nul_anywhere_is_found(value: object) -> None:
    assert holds_nul(value)


@pytest.mark.parametrize("value", ["", "a\\u0000", "\x01", 0, None, True, 1.5, [], {}, {"a": ["b", {"c": 0}]}, b"\0"])
def test_data_without_one_is_left_alone(value: object) -> None:
    assert not holds_nul(value)
