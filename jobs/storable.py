"""What JSON text PostgreSQL's jsonb can hold. No Django."""


def holds_nul(value: object) -> bool:
    """Whether any string in JSON-able data, keys included, holds U+0000, the one character jsonb refuses."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(holds_nul(part) for pair in value.items() for part in pair)
    return isinstance(value, (list, tuple)) and any(map(holds_nul, value))
