"""Job type `routes.optimize` (heavy): a short round tour through the nodes of a TSPLIB problem."""

import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from workers import JobContext, job
from workers.catalog.tsplib import MAX_NODES, MIN_NODES, read_nodes

# 20 s below heavy's default timeout: set-up and the search's longest step took 1.5 s together at 2,000
# nodes, and a machine may be ten times slower. The type declares no timeout of its own, because one above a
# class ceiling that an operator has lowered would stop the start; under a shorter limit the search is shorter.
MAX_SEARCH_SECONDS = 100.0
MIN_SEARCH_SECONDS = 0.1
# 2,000 nodes at 100 characters a line. The class's limit on the size of params usually comes first.
MAX_TEXT_CHARACTERS = 200_000

_EXAMPLE = {
    "tsplib": (
        "NAME: five\nTYPE: TSP\nDIMENSION: 5\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n"
        "1 0 0\n2 30 40\n3 60 0\n4 0 50\n5 60 50\nEOF\n"
    ),
    "seconds": 1.0,
}


class RouteParams(BaseModel):
    """A TSPLIB problem as text, and how long to search."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tsplib: str = Field(
        max_length=MAX_TEXT_CHARACTERS,
        description=(
            f"A TSPLIB problem: TYPE TSP, EDGE_WEIGHT_TYPE EUC_2D, DIMENSION {MIN_NODES} to {MAX_NODES}, "
            "and a NODE_COORD_SECTION with every id from 1 to DIMENSION once."
        ),
    )
    seconds: float = Field(
        default=3.0,
        ge=MIN_SEARCH_SECONDS,
        le=MAX_SEARCH_SECONDS,
        allow_inf_nan=False,
        description="How long to search. It ends earlier when the job's own time limit or deadline comes first.",
    )

    @field_validator("tsplib")
    @classmethod
    def _is_a_problem(cls, text: str) -> str:
        read_nodes(text)
        return text


@job("routes.optimize", cost_class="heavy", params=RouteParams, example=_EXAMPLE)
def optimize(ctx: JobContext[RouteParams]) -> dict[str, Any]:
    """Look for a short round trip through points, as long as there is time.

    Returns {"tour": node ids in order of visit, beginning with 1, "length": whole TSPLIB distance of the closed tour}.
    """
    from workers.catalog.tour_search import search_tour

    nodes = read_nodes(ctx.params.tsplib)
    tour, length = search_tour([(node.x, node.y) for node in nodes], _search_end(ctx))
    return {"tour": [nodes[index].id for index in tour], "length": length}


def _search_end(ctx: JobContext[RouteParams]) -> Callable[[int], bool]:
    """The search's stop function: True when its time is over. Reports progress, and raises what ctx.check() does."""
    seconds = search_seconds(ctx.params.seconds, ctx.remaining())
    if seconds < ctx.params.seconds:
        ctx.log.info("search_shortened", asked_seconds=ctx.params.seconds, search_seconds=round(seconds, 3))
    started_at = time.monotonic()

    def over(best_length: int) -> bool:
        ctx.check()
        elapsed = time.monotonic() - started_at
        ctx.progress(min(1.0, elapsed / seconds), f"best length so far {best_length}")
        return elapsed >= seconds

    return over


def search_seconds(asked: float, remaining: float) -> float:
    """As long as asked, but short of the job's limit: the best tour in time is worth more than a timeout.

    A fifth of what remains, at most 2 s, is kept back for the step that is under way when time is up.
    """
    return min(asked, max(0.001, remaining - min(2.0, 0.2 * remaining)))
