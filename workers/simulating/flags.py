"""What `manage.py simulate` was asked: classes and loads as name=value lists, each read in its range or refused in one sentence. No Django."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jobs.order import HIGHEST_PRIORITY
from jobs.ranges import Whole, WrongSetting
from workers.planning.flags import Above
from workers.planning.flags import run_times as read_run_times
from workers.simulating.door import Limits
from workers.simulating.traces import DISTRIBUTIONS, IGNORE, NEVER, OBEY, Load, Manner

MOST_JOBS = 1_000_000
MOST_NODES = 1_000
_DAY = 86_400
_SECONDS = Above("a number of seconds", _DAY)
BACKLOG_SHARE = 0.8  # of max_wait_seconds, as a class has it by default


@dataclass(frozen=True)
class OneOf:
    names: tuple[str, ...]

    def read(self, name: str, raw: object) -> str:
        if raw not in self.names:
            raise WrongSetting(name, raw, f"one of {', '.join(self.names)}")
        return str(raw)


@dataclass(frozen=True)
class Text:
    def read(self, name: str, raw: object) -> str:
        if not 0 < len(str(raw)) <= 64:
            raise WrongSetting(name, raw, "a name of 1 to 64 characters")
        return str(raw)


_Allowed = Above | Whole | OneOf | Text
OF_A_CLASS: dict[str, _Allowed] = {
    "name": Text(),
    "processes": Whole(1, 256),
    "nodes": Whole(1, MOST_NODES),
    "max_waiting": Whole(0, 10_000),
    "max_wait_seconds": _SECONDS,
    "max_backlog_seconds": _SECONDS,
    "retry_after_seconds": Whole(1, 300),
}
OF_A_LOAD: dict[str, _Allowed] = {
    "name": Text(),
    "cost_class": Text(),
    "rate": Above("a number of jobs a second", 1_000_000),
    "threads": Whole(1, 10_000),
    "rest_seconds": _SECONDS,
    "run_seconds": _SECONDS,
    "run_times": Text(),
    "distribution": OneOf(DISTRIBUTIONS),
    "client": Text(),
    "clients": Whole(1, 10_000),
    "weight": Above("a weight", 1_000),
    "priority": Whole(-HIGHEST_PRIORITY, HIGHEST_PRIORITY),
    "flow": Text(),
    "deadline_seconds": _SECONDS,
    "retries": OneOf((OBEY, IGNORE, NEVER)),
}
NUMBERS: dict[str, _Allowed] = {
    "jobs": Whole(1, MOST_JOBS),
    "seed": Whole(0, 2**31),
    "retries": OneOf((OBEY, IGNORE, NEVER)),
    "pause_seconds": _SECONDS,
    "give_up": Whole(1, 1_000),
}


def pairs(flag: str, raw: str, allowed: Mapping[str, _Allowed]) -> dict[str, object]:
    """Of `name=value,…`. Raises WrongSetting for the first that is none."""
    found: dict[str, object] = {}
    for pair in raw.split(","):
        name, equals, value = pair.partition("=")
        if not equals or name not in allowed or name in found:
            raise WrongSetting(f"{flag} {raw}: {pair}", pair, f"name=value, once each of {', '.join(allowed)}")
        found[name] = allowed[name].read(f"{flag} {raw}: {name}", value)
    return found


def limits(raw: str, declared: Mapping[str, Limits]) -> Limits:
    """A class: of what is left out, what one of that name declares. Raises WrongSetting."""
    given = pairs("--class", raw, OF_A_CLASS)
    name = str(given.get("name", ""))
    own = declared.get(name)
    needed = [each for each in ("name", "processes", "max_waiting", "max_wait_seconds") if each not in given]
    if not name or own is None and needed:
        raise WrongSetting("--class", raw, f"one that also has {needed[0]}=…")
    slots = int(_or(given, "processes", own and own.slots)) * int(_or(given, "nodes", 1))
    max_wait = float(_or(given, "max_wait_seconds", own and own.max_wait_seconds))
    backlog = BACKLOG_SHARE * max_wait if own is None or "max_wait_seconds" in given else own.max_backlog_seconds
    return Limits(
        name,
        slots,
        int(_or(given, "max_waiting", own and own.max_waiting)),
        max_wait,
        float(_or(given, "max_backlog_seconds", backlog)),
        int(_or(given, "retry_after_seconds", own.retry_after_seconds if own else 5)),
    )


def _or(given: Mapping[str, object], name: str, otherwise: object) -> float:
    found = given.get(name, otherwise)
    assert isinstance(found, int | float)
    return found


def load(raw: str, manner: Manner, text_of: Callable[[str], str]) -> Load:
    """Raises WrongSetting. text_of reads the file of run_times."""
    given = pairs("--load", raw, OF_A_LOAD)
    missing = [] if "name" in given else ["name"]
    if not missing and ("rate" in given) == ("threads" in given):
        raise WrongSetting("--load", raw, "one that also has either rate=… or threads=…")
    if "rest_seconds" in given and "threads" not in given:
        raise WrongSetting("--load", raw, "one that has threads=… where it has rest_seconds=…")
    given.setdefault("rate", 0.0)
    if missing or ("run_seconds" in given) == ("run_times" in given):
        needed = f"{missing[0]}=…" if missing else "either run_seconds=… or run_times=FILE"
        raise WrongSetting("--load", raw, f"one that also has {needed}")
    if "run_times" in given:
        file = str(given.pop("run_times"))
        given["run_times"] = times = read_run_times(file, text_of(file))
        given["run_seconds"] = sum(times) / len(times)
    comes = given.pop("retries", manner.comes)
    given.setdefault("cost_class", given["name"])
    return Load(**given, manner=Manner(comes, manner.pause_seconds, manner.asks))  # type: ignore[arg-type]
