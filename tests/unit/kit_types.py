"""Job types that do what a test tells them, for the tests of the testing kit."""

from typing import Any

from pydantic import BaseModel, Field

from workers import JobContext, JobTimeout, Retry, job
from workers.testing import Ran, run


class Params(BaseModel):
    n: int = Field(default=1, ge=0)
    does: str = "return"


HOW: dict[str, Any] = {}  # what the handlers below do, by test


@job("tests.kit", cost_class="light", timeout=8, params=Params, retry=Retry(max_attempts=3))
def handler(ctx: JobContext[Params]) -> Any:
    return HOW["do"](ctx)


@job("tests.kit_big", cost_class=lambda params: "heavy" if params.n > 9 else "light", params=Params)
def sized(ctx: JobContext[Params]) -> float:
    return ctx.remaining()


@job("tests.kit_async", cost_class="light", timeout=8)
async def waits(ctx: JobContext[Any]) -> str:
    HOW["clock"].sleep(HOW.get("seconds", 0))
    return "waited"


@job("tests.kit_patient", cost_class="light", timeout=8, retry=Retry(max_attempts=2, on=(JobTimeout,), budget=True))
def patient(ctx: JobContext[Any]) -> Any:
    return HOW["do"](ctx)


@job("tests.kit_long", cost_class="heavy", timeout=800)
def long(ctx: JobContext[Any]) -> Any:
    return HOW["do"](ctx)


def run_doing(do: Any, **more: Any) -> Ran:
    HOW["do"] = do
    return run(handler, **more)


def raising(error: BaseException) -> Any:
    def do(ctx: JobContext[Params]) -> None:
        raise error

    return do
