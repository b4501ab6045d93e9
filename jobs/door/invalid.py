"""What no job can be made of. Raised as it is to whoever calls; the API makes a problem of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MOST_PLACES = 100


class InvalidJob(ValueError):
    """No job can be made of what was asked for. The text is a sentence that names the fields.

    code: as the API's problems have it, `invalid_params` say. errors: [{"loc": ["params", "n"], "msg": …}], without values, which may be secret.
    sentence: the text without the places. limit_bytes: of what is too large, how large it may be. seconds: of durations that do not go
    together, each by its name.
    """

    def __init__(
        self,
        code: str,
        sentence: str,
        errors: list[dict[str, Any]] | None = None,
        *,
        limit_bytes: int | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.code, self.sentence, self.errors, self.limit_bytes = code, sentence, errors or [], limit_bytes
        self.seconds = dict(seconds or {})

    def __str__(self) -> str:
        told = [
            f"{'.'.join(each['loc'])}: {each['msg'].rstrip('.')}"
            for each in self.errors
            if each["msg"].rstrip(".") not in self.sentence
        ]
        return f"{self.sentence.rstrip('.')}: {'; '.join(told)}." if told else self.sentence


class UnknownType(InvalidJob):
    """Over HTTP the types are not for everybody to list, so only the text for who calls names them."""

    def __init__(self, name: str, known: list[str]) -> None:
        sentence = f"There is no job type {name[:100]!r}."
        super().__init__("unknown_type", sentence, [{"loc": ["type"], "msg": sentence}])
        self._known = known

    def __str__(self) -> str:
        return f"{self.sentence.removesuffix('.')}; there are {', '.join(self._known) or 'none'}. Modules with others are named in WEIGHBRIDGE_JOB_MODULES."


def places(error: ValidationError, *within: str) -> list[dict[str, Any]]:
    """Where, and why not. The offending value is left out: it may be a secret."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [{"loc": [*within, *map(str, one["loc"])], "msg": _said(one)} for one in found[:MOST_PLACES]]


def _said(error: "ErrorDetails") -> str:
    """Pydantic's words, but for those that speak of Python, or of its own models."""
    if error["type"] in {"too_long", "too_short"}:
        words = error["msg"].replace(" after validation", "").removesuffix(", not more")
        return words.replace("Dictionary", "Object").replace("List", "Array")
    return _PLAIN.get(error["type"], error["msg"].removeprefix("Value error, "))


_PLAIN = {
    "extra_forbidden": "There is no field of that name.",
    "model_type": "Must be a JSON object.",
    "model_attributes_type": "Must be a JSON object.",
    "dict_type": "Must be a JSON object.",
    "list_type": "Must be a JSON array.",
    "none_required": "Must be null.",
}
