"""The registry of job types: names, duplicates, strict params, loading."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from jobs import registry
from jobs.ranges import WrongSetting
from jobs.registry import JobType, NoParams, WrongJobType, strict


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_types", {})


def _one(ctx: Any) -> None: ...


def _other(ctx: Any) -> None: ...


def _type(name: str, handler: Callable[[Any], Any] = _one) -> JobType:
    return JobType(name=name, handler=handler, params=NoParams, cost_class="light")


@pytest.mark.parametrize("name", ["a", "routes.optimize", "A.b_2.C3", "0.1", "_", "x" * 100])
def test_dotted_words_are_a_name(name: str) -> None:
    registered = registry.register(_type(name))
    assert registry.get(name) is registered


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a..b", "a b", "a-b", "a/b", "ä", "a\n", "a.b\0", "x" * 101])
def test_anything_else_is_not(name: str) -> None:
    with pytest.raises(WrongJobType, match="dotted words of letters, digits and _, at most 100 characters"):
        registry.register(_type(name))
    assert registry.get(name) is None


def test_two_handlers_cannot_share_a_name() -> None:
    first = registry.register(_type("a.b", _one))
    with pytest.raises(WrongJobType, match=r"'a\.b' is registered by both .*\._one and .*\._other"):
        registry.register(_type("a.b", _other))
    assert registry.get("a.b") is first


def test_a_module_that_is_loaded_again_registers_its_handler_again() -> None:
    registry.register(_type("a.b"))
    registry.register(_type("a.b"))
    assert registry.names() == ["a.b"]


def test_names_and_types_come_sorted() -> None:
    for name in ("b", "a", "c"):
        registry.register(_type(name))
    assert registry.names() == ["a", "b", "c"]
    assert [t.name for t in registry.all_types()] == ["a", "b", "c"]


class Plain(BaseModel):
    """Says nothing about unknown fields."""

    n: int

    @field_validator("n")
    @classmethod
    def _small(cls, n: int) -> int:
        if n > 9:
            raise ValueError("too much")
        return n


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")


class OpenChild(Open):
    n: int = 0


class Nested(BaseModel):
    inner: Plain


def test_a_model_that_says_nothing_forbids_unknown_fields() -> None:
    with pytest.raises(ValidationError, match="more"):
        strict(Plain).model_validate({"n": 1, "more": 2})


def test_strict_keeps_what_the_model_is() -> None:
    model = strict(Plain)
    assert (model.__name__, model.__doc__, model.__module__) == (Plain.__name__, Plain.__doc__, Plain.__module__)
    assert isinstance(model.model_validate({"n": 9}), Plain)
    with pytest.raises(ValidationError, match="too much"):
        model.model_validate({"n": 10})


@pytest.mark.parametrize("model", [Open, Ignoring, OpenChild, NoParams])
def test_a_model_that_decides_itself_is_left_alone(model: type[BaseModel]) -> None:
    assert strict(model) is model


def test_only_the_top_level_is_made_strict() -> None:
    strict(Nested).model_validate({"inner": {"n": 1, "more": 2}})
    with pytest.raises(ValidationError):
        strict(Nested).model_validate({"inner": {"n": 1}, "more": 2})


def test_weigh_asks_the_declared_name_or_function() -> None:
    by_size = JobType("a", _one, Plain, cost_class=lambda p: "heavy" if p.n > 5 else "light")
    assert _type("b").weigh(NoParams()) == "light"
    assert [by_size.weigh(Plain(n=n)) for n in (5, 6)] == ["light", "heavy"]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """write("team/jobs.py", source) makes a module that can be imported."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, source: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)

    return write


def test_loading_a_module_registers_its_types(write: Callable[[str, str], None]) -> None:
    write(
        "team_loads.py",
        "from workers import job\n@job('team.hello', cost_class='light')\ndef hello(ctx): return 'hello'\n",
    )
    registry.load(["team_loads"])
    assert registry.names() == ["team.hello"]


@pytest.mark.parametrize(
    "module", ["nowhere_at_all", "nowhere_at_all.jobs", "json.nowhere", "workers.catalog.nowhere", "a/b"]
)
def test_a_module_that_is_not_there_is_a_wrong_setting(module: str) -> None:
    with pytest.raises(WrongSetting) as refused:
        registry.load([module])
    assert str(refused.value) == (
        f"WEIGHBRIDGE_JOB_MODULES is '{module}', but must be modules that can be imported from PYTHONPATH."
    )


def test_a_relative_module_is_a_wrong_setting() -> None:
    with pytest.raises(WrongSetting):
        registry.load([".jobs"])


@pytest.mark.parametrize(
    ("module", "source", "error", "says"),
    [
        ("team_lacks_library", "import a_missing_library\n", ModuleNotFoundError, "a_missing_library"),
        ("team_lacks_sibling", "import json.sibling\n", ModuleNotFoundError, "json.sibling"),
        ("team_lacks_part", "import team_lacks_part.jobs\n", ModuleNotFoundError, "not a package"),
        ("team_lacks_name", "from json import nothing_like_it\n", ImportError, "nothing_like_it"),
        ("team_misspelt", "def :\n", SyntaxError, "invalid syntax"),
        ("team_fails", "1 / 0\n", ZeroDivisionError, "division"),
    ],
)
def test_an_error_inside_a_module_is_shown_as_it_is(
    write: Callable[[str, str], None], module: str, source: str, error: type[Exception], says: str
) -> None:
    """To call it a missing module would send its author to look in the wrong place."""
    write(f"{module}.py", source)
    with pytest.raises(error, match=says):
        registry.load([module])
