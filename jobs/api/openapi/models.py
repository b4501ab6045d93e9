"""Pydantic models as schemas."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

REF = "#/components/schemas/{model}"


class _Untitled(GenerateJsonSchema):
    """Without a title for each member, which would only be its name once more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """Of a model that holds no other; it may be changed."""
    schema = model.model_json_schema(ref_template=REF, schema_generator=_Untitled)
    assert "$defs" not in schema, model
    return schema


def component_of(model: type[BaseModel]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema, and those of the models within it, by their names."""
    schema = model.model_json_schema(ref_template=REF, schema_generator=_Untitled)
    return schema, schema.pop("$defs", {})
