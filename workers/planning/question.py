"""What is asked of the planner. No Django."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.planning.sizes import Load, Targets
from workers.sizing import Memory

REFUSAL_TARGET = 0.01  # one caller in a hundred is told to come back


@dataclass(frozen=True)
class Question:
    """What was asked: a load, and either a size to be judged (slots and max_waiting) or targets, of which a size is to come.

    run_times: seconds of runs as they were recorded, if there are any. computing: how much of their time they are on a processor, from
    0 to 1, None if nobody knows. memory: what one machine of this class has; None if what a job needs is not known.
    """

    load: Load
    slots: int | None = None
    max_waiting: int | None = None
    wait_target: float | None = None
    refusal_target: float | None = None
    memory: Memory | None = None
    cores: int = 1
    computing: float | None = None
    run_times: Sequence[float] = ()

    @property
    def targets(self) -> Targets | None:
        if self.wait_target is None:
            return None
        return Targets(self.wait_target, REFUSAL_TARGET if self.refusal_target is None else self.refusal_target)
