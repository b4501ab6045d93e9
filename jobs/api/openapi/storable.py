"""What holds for each string of a body, whatever model it belongs to: PostgreSQL cannot store U+0000, so read_json refuses it."""

from typing import Any

WITHOUT_NUL = r"^[^\u0000]*$"
_SAYS_MORE = {"pattern", "format", "enum", "const"}  # none of which lets it through


def storable(schema: Any) -> Any:
    """The JSON Schema with the pattern at each string, and at each name that a caller may choose."""
    if isinstance(schema, list):
        return [storable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: part if name in {"default", "examples"} else storable(part) for name, part in schema.items()}
    if found.get("type") == "string" and not _SAYS_MORE & found.keys():
        found["pattern"] = WITHOUT_NUL
    if isinstance(found.get("additionalProperties"), dict) or isinstance(found.get("patternProperties"), dict):
        found["propertyNames"] = {"pattern": WITHOUT_NUL, **found.get("propertyNames", {})}
    return found
