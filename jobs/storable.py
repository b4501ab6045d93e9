"""What JSON text PostgreSQL's jsonb can hold. No Django."""

import math
from collections.abc import Iterator


def plain_text(text: str) -> str:
    """Text as PostgreSQL can hold it: U+0000 and lone surrogates (a file name that is not UTF-8) made visible."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def holds_nul(value: object) -> bool:
    """Whether any string in JSON-able data, keys included, holds U+0000, the one character jsonb refuses."""
    return any("\0" in leaf for leaf in _leaves(value) if isinstance(leaf, str))


def holds_infinity(value: object) -> bool:
    """Whether any number in JSON-able data is infinite or none."""
    return any(not math.isfinite(leaf) for leaf in _leaves(value) if isinstance(leaf, float))


def _leaves(value: object) -> Iterator[object]:
    """Strings (keys too), numbers and constants; without recursion, since depth is the author's choice."""
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            left.extend(item.keys())
            left.extend(item.values())
        elif isinstance(item, (list, tuple)):
            left.extend(item)
        else:
            yield item


def depth(value: object) -> int:
    """How deeply lists and dicts are nested in JSON-able data: 0 for a plain value."""
    deepest, left = 0, [(value, 0)]
    while left:
        item, level = left.pop()
        deepest = max(deepest, level)
        if isinstance(item, dict):
            left.extend((part, level + 1) for part in item.values())
        elif isinstance(item, (list, tuple)):
            left.extend((part, level + 1) for part in item)
    return deepest
