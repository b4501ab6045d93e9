"""Numbers from outside are read inside their range, or refused in one sentence."""

import pytest

from jobs.ranges import Range, Seconds, Whole, WrongSetting


@pytest.mark.parametrize(
    ("allowed", "raw", "value"),
    [
        (Whole(1, 256), "1", 1),
        (Whole(1, 256), "256", 256),
        (Whole(1, 256), " 7 ", 7),
        (Whole(0, 19), 0, 0),
        (Whole(-5, 5), "-5", -5),
        (Seconds(0.1, 10), "0.1", 0.1),
        (Seconds(0.1, 10), "10", 10.0),
        (Seconds(0.1, 10), "1e0", 1.0),
        (Seconds(0.1, 10), 2, 2.0),
    ],
)
def test_a_value_inside_its_range_is_read(allowed: Range, raw: object, value: float) -> None:
    read = allowed.read("NAME", raw)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("raw", ["0", "257", "-1", "1.0", 1.0, "", "two", "1e2", True, None, "0x10"])
def test_a_whole_number_outside_its_range_is_refused(raw: object) -> None:
    with pytest.raises(WrongSetting):
        Whole(1, 256).read("NAME", raw)


@pytest.mark.parametrize("raw", ["0.0999", "10.001", "-1", "nan", "inf", "-inf", "", "1s", True, None])
def test_a_duration_outside_its_range_is_refused(raw: object) -> None:
    with pytest.raises(WrongSetting):
        Seconds(0.1, 10).read("NAME", raw)


@pytest.mark.parametrize(
    ("allowed", "raw", "sentence"),
    [
        (Whole(1, 256), "300", "NAME is '300', but must be a whole number from 1 to 256."),
        (Whole(1, 256), 0, "NAME is 0, but must be a whole number from 1 to 256."),
        (Seconds(0.1, 86_400), "x", "NAME is 'x', but must be a number of seconds from 0.1 to 86400."),
        (Seconds(1, 366 * 86_400), "x", "NAME is 'x', but must be a number of seconds from 1 to 31622400."),
    ],
)
def test_the_sentence_names_the_setting_the_value_and_the_range(allowed: Range, raw: object, sentence: str) -> None:
    with pytest.raises(WrongSetting) as refused:
        allowed.read("NAME", raw)
    assert str(refused.value) == sentence
