"""Which of its two forms a caller wants the document in."""

import json
from typing import Any, Literal

import yaml
from django.http import QueryDict
from pydantic import BaseModel, ConfigDict, ValidationError

from jobs.api.errors import Problem
from jobs.api.openapi.parts import JSON, YAML

Format = Literal["json", "yaml"]
MEDIA = {"json": JSON, "yaml": YAML}


class FormatQuery(BaseModel):
    """The query of GET /api/schema/."""

    model_config = ConfigDict(extra="forbid")

    format: Format | None = None


def asked(query: QueryDict, accept: str) -> Format:
    """Raises Problem (422)."""
    given = {name: values[0] if len(values) == 1 else values for name, values in query.lists()}
    try:
        read = FormatQuery.model_validate(given)
    except ValidationError as error:
        raise Problem.unreadable_query(error, "The schema is asked for by format=json or yaml.") from None
    return read.format or ("yaml" if "yaml" in accept.lower() else "json")


def written(document: dict[str, Any], form: Format) -> str:
    if form == "json":
        return json.dumps(document, ensure_ascii=False)
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)


class _Plain(yaml.SafeDumper):
    """Everything written out: generators of clients stumble over YAML's anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
