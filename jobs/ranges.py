"""Numbers that come from outside: read in a stated range, or refused in one sentence. No Django."""

from dataclasses import dataclass


class WrongSetting(ValueError):
    """A setting nobody can work with. Its text names the setting, the value and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} is {value!r}, but must be {allowed}.")


@dataclass(frozen=True)
class Whole:
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int

    def read(self, name: str, raw: object) -> int:
        try:
            value = int(str(raw).strip())
        except ValueError:
            raise WrongSetting(name, raw, str(self)) from None
        if not self.low <= value <= self.high:
            raise WrongSetting(name, raw, str(self))
        return value

    def __str__(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


@dataclass(frozen=True)
class Seconds:
    """A duration in seconds from `low` to `high`, both included; fractions are allowed."""

    low: float
    high: float

    def read(self, name: str, raw: object) -> float:
        try:
            value = float(str(raw).strip())
        except ValueError:
            raise WrongSetting(name, raw, str(self)) from None
        if not self.low <= value <= self.high:  # NaN is in no range
            raise WrongSetting(name, raw, str(self))
        return value

    def __str__(self) -> str:
        return f"a number of seconds from {self.low:g} to {self.high:.15g}"


Range = Whole | Seconds
