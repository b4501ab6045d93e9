"""What the two probes, `probe.sleep` and `probe.spin`, are told. Both are for tests and load only."""

from pydantic import BaseModel, ConfigDict, Field, field_validator

from jobs.classes import declared


class ProbeParams(BaseModel):
    """How long, and in which cost class."""

    # The default class is validated too: a team's own settings may declare no `light`.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True)

    seconds: float = Field(ge=0, allow_inf_nan=False, description="How long to sleep or to spin.")
    cost_class: str = Field(default="light", description="The name of any declared cost class.")

    @field_validator("cost_class")
    @classmethod
    def _is_declared(cls, name: str) -> str:
        if name not in declared():
            shown = repr(name if len(name) <= 40 else f"{name[:40]}…")
            raise ValueError(f"There is no cost class {shown}; there are {', '.join(sorted(declared()))}.")
        return name


def class_asked_for(params: ProbeParams) -> str:
    return params.cost_class
