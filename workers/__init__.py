"""What authors of job types import.

from workers import JobContext, job

@job("numbers.square", cost_class="heavy", timeout=30, params=SquareParams)
def square(ctx: JobContext[SquareParams]) -> dict[str, int]:
    return {"square": ctx.params.n ** 2}
"""

from workers.context import JobContext
from workers.declare import job
from workers.retries import Retry

__all__ = ["JobContext", "Retry", "job"]
