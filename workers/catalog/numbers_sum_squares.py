"""Job type `numbers.sum_squares` (light or heavy by the size of n): 1² + 2² + … + n², added up one by one.

There is a formula; the loop is the point, as an example of work whose cost class depends on its params.
"""

from pydantic import BaseModel, ConfigDict, Field

from workers import JobContext, job

MAX_N = 100_000_000  # about 10 s of one core, so a core ten times slower stays within heavy's 120 s
LIGHT_MAX_N = 1_000_000  # about 0.08 s of one core
# The largest n whose sum is below 2**53, up to which a reader that keeps numbers as doubles loses nothing.
EXACT_AS_DOUBLE_MAX_N = 300_079
_CHUNK = 100_000  # about 10 ms between two looks at cancel and limits


class SumSquaresParams(BaseModel):
    """How many squares to add."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    n: int = Field(
        ge=0,
        le=MAX_N,
        description=(
            f"The sum runs from 1 to n. Up to {LIGHT_MAX_N} the job is light, above it heavy. Above "
            f"{EXACT_AS_DOUBLE_MAX_N} the sum is a JSON integer above 2**53: read it with a parser that keeps "
            "large integers."
        ),
    )


def class_by_size(params: SumSquaresParams) -> str:
    return "light" if params.n <= LIGHT_MAX_N else "heavy"


@job("numbers.sum_squares", cost_class=class_by_size, params=SumSquaresParams, example={"n": 1000})
def sum_squares(ctx: JobContext[SumSquaresParams]) -> dict[str, int]:
    """Add up the squares of 1 to n. Returns {"n": as given, "sum": the exact sum, up to 3.4e23}."""
    n = ctx.params.n
    total = 0
    for first in range(1, n + 1, _CHUNK):
        ctx.check()
        last = min(first + _CHUNK - 1, n)
        total += sum(number * number for number in range(first, last + 1))
        ctx.progress(last / n)
    return {"n": n, "sum": total}
