"""Job type `team.weigh`: its handler uses the team's models, in both databases."""

from pydantic import BaseModel

from tests.acceptance.team.models import ArchivedLoad, Load
from workers import JobContext, job


class WeighParams(BaseModel):
    kilograms: float


@job("team.weigh", cost_class="scales", timeout=5, params=WeighParams)
def weigh(ctx: JobContext[WeighParams]) -> dict[str, float]:
    """{"total": everything weighed so far}, in kilograms."""
    Load.objects.create(job_id=ctx.job_id, kilograms=ctx.params.kilograms)
    ArchivedLoad.objects.create(job_id=ctx.job_id, kilograms=ctx.params.kilograms)
    return {"total": sum(Load.objects.values_list("kilograms", flat=True))}
