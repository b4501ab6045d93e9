"""Cost classes: what settings declare and the environment overrides, checked before anything runs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from jobs import classes
from jobs.classes import RANGES, CostClass
from jobs.ranges import Whole, WrongSetting

Declare = Callable[..., dict[str, CostClass]]

LEAST: dict[str, Any] = {
    "processes": 2,
    "max_waiting": 4,
    "max_wait_seconds": 10,
    "timeout_seconds": 5,
    "ceiling_seconds": 30,
}
# (field, lowest, highest): the ranges that the papers state.
STATED = [
    ("processes", 1, 256),
    ("max_waiting", 0, 10_000),
    ("max_wait_seconds", 0.1, 86_400),
    ("max_backlog_seconds", 0.1, 86_400),
    ("timeout_seconds", 0.1, 86_400),
    ("ceiling_seconds", 0.1, 86_400),
    ("retry_after_seconds", 1, 300),
    ("params_bytes", 1024, 16 * 1024 * 1024),
    ("result_bytes", 1024, 64 * 1024 * 1024),
    ("nice", 0, 19),
    ("stop_grace_seconds", 0.1, 86_400),
]


@pytest.fixture
def declare(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Declare]:
    """declare({name: numbers}, VARIABLE="value") reads these as a start would."""

    def declare(tables: Mapping[str, Any], **environ: str) -> dict[str, CostClass]:
        settings.COST_CLASSES = tables
        for variable, value in environ.items():
            monkeypatch.setenv(variable, value)
        classes.declared.cache_clear()
        return classes.declared()

    yield declare
    classes.declared.cache_clear()


def _wide(field: str) -> dict[str, Any]:
    """A table in which `field` may take any value of its range."""
    under_the_ceiling = {"timeout_seconds", "stop_grace_seconds"}
    return LEAST | ({"ceiling_seconds": 86_400} if field in under_the_ceiling else {"timeout_seconds": 0.1})


def test_every_field_has_a_stated_range() -> None:
    assert {field for field, _, _ in STATED} == set(RANGES)


@pytest.mark.parametrize(("field", "low", "high"), STATED)
def test_a_number_at_either_end_of_its_range_is_taken(declare: Declare, field: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(declare({"gpu": _wide(field) | {field: value}})["gpu"], field) == value


@pytest.mark.parametrize(("field", "low", "high"), STATED)
def test_a_variable_at_either_end_of_its_range_is_taken(declare: Declare, field: str, low: float, high: float) -> None:
    for value in (low, high):
        known = declare({"gpu": _wide(field)}, **{f"WEIGHBRIDGE_GPU_{field.upper()}": str(value)})
        assert getattr(known["gpu"], field) == value


@pytest.mark.parametrize(("field", "low", "high"), STATED)
def test_a_number_beyond_its_range_is_refused_by_name_value_and_range(
    declare: Declare, field: str, low: float, high: float
) -> None:
    step = 1 if isinstance(RANGES[field], Whole) else 0.01
    for value in (low - step, high + step):
        with pytest.raises(WrongSetting) as in_settings:
            declare({"gpu": _wide(field) | {field: value}})
        _says(in_settings, f"COST_CLASSES['gpu']['{field}']", f"{value!r}", f"from {low:g} to", str(RANGES[field]))


@pytest.mark.parametrize(("field", "low", "high"), STATED)
def test_a_variable_beyond_its_range_is_refused_by_name_value_and_range(
    declare: Declare, field: str, low: float, high: float
) -> None:
    variable = f"WEIGHBRIDGE_GPU_{field.upper()}"
    for value in (str(low - 1), str(high + 1), "many", ""):
        with pytest.raises(WrongSetting) as in_environment:
            declare({"gpu": _wide(field)}, **{variable: value})
        _says(in_environment, variable, repr(value), str(RANGES[field]))


def _says(refused: pytest.ExceptionInfo[WrongSetting], *parts: str) -> None:
    assert all(part in str(refused.value) for part in parts), str(refused.value)


def test_the_environment_overrides_settings(declare: Declare) -> None:
    gpu = declare({"gpu": LEAST}, WEIGHBRIDGE_GPU_PROCESSES="7", WEIGHBRIDGE_GPU_NICE="3")["gpu"]
    assert (gpu.processes, gpu.nice, gpu.max_waiting) == (7, 3, 4)


def test_the_environment_gives_what_settings_leave_out(declare: Declare) -> None:
    table = {field: number for field, number in LEAST.items() if field != "processes"}
    assert declare({"gpu": table}, WEIGHBRIDGE_GPU_PROCESSES="7")["gpu"].processes == 7


@pytest.mark.parametrize("field", sorted(LEAST))
def test_a_table_without_a_needed_number_is_refused(declare: Declare, field: str) -> None:
    with pytest.raises(WrongSetting, match=f"a table that also has '{field}'"):
        declare({"gpu": {name: number for name, number in LEAST.items() if name != field}})


def test_a_third_class_is_one_entry(declare: Declare) -> None:
    known = declare({"light": LEAST, "heavy": LEAST, "gpu": LEAST})
    assert list(known) == ["light", "heavy", "gpu"]
    assert known["gpu"] == CostClass(name="gpu", **LEAST)
    assert classes.get("gpu") is known["gpu"]


def test_what_a_table_leaves_out_has_the_stated_default(declare: Declare) -> None:
    gpu = declare({"gpu": LEAST})["gpu"]
    assert (gpu.retry_after_seconds, gpu.params_bytes, gpu.result_bytes, gpu.nice) == (5, 65_536, 1_048_576, 10)


@pytest.mark.parametrize(("timeout", "ceiling"), [(30, 30), (29.9, 30)])
def test_a_timeout_may_reach_the_ceiling(declare: Declare, timeout: float, ceiling: float) -> None:
    numbers = {"timeout_seconds": timeout, "ceiling_seconds": ceiling}
    assert declare({"gpu": LEAST | numbers})["gpu"].timeout_seconds == timeout


def test_a_timeout_above_the_ceiling_is_refused(declare: Declare) -> None:
    with pytest.raises(WrongSetting) as refused:
        declare({"gpu": LEAST}, WEIGHBRIDGE_GPU_TIMEOUT_SECONDS="30.1")
    _says(refused, "WEIGHBRIDGE_GPU_TIMEOUT_SECONDS is 30.1", "at most the class's ceiling_seconds, 30")


@pytest.mark.parametrize("name", ["a", "gpu_2", "g" * 31])
def test_a_well_formed_name_is_taken(declare: Declare, name: str) -> None:
    assert list(declare({name: LEAST})) == [name]


@pytest.mark.parametrize("name", ["control", "", "GPU", "2gpu", "_gpu", "g-pu", "g pu", "gpu\n", "gpü", "g" * 32])
def test_a_reserved_or_malformed_name_is_refused(declare: Declare, name: str) -> None:
    with pytest.raises(WrongSetting) as refused:
        declare({name: LEAST})
    _says(refused, repr(name), "lower-case letters, digits and _, and not begin with one of")


def test_a_name_whose_variables_mean_something_else_is_refused(declare: Declare) -> None:
    with pytest.raises(WrongSetting):
        declare({"web": LEAST}, WEIGHBRIDGE_WEB_PROCESSES="9")


def test_an_unknown_number_is_refused(declare: Declare) -> None:
    with pytest.raises(WrongSetting) as refused:
        declare({"gpu": LEAST | {"proceses": 3}})
    _says(refused, "COST_CLASSES['gpu'] is 'proceses'", "one of processes,")


def test_a_misspelt_variable_of_a_class_is_refused(declare: Declare) -> None:
    with pytest.raises(WrongSetting) as refused:
        declare({"gpu": LEAST}, WEIGHBRIDGE_GPU_PROCESES="3")
    _says(refused, "'WEIGHBRIDGE_GPU_PROCESES'", "WEIGHBRIDGE_GPU_PROCESSES")


def test_a_class_whose_name_begins_with_anothers_owns_its_variables(declare: Declare) -> None:
    known = declare({"gpu": LEAST, "gpu_big": LEAST}, WEIGHBRIDGE_GPU_BIG_PROCESSES="9")
    assert (known["gpu"].processes, known["gpu_big"].processes) == (2, 9)
