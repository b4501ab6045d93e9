"""What a job's type says that it uses of things of which there is only so much, each named by a key (P12). How many jobs may run that name it is an operator's to say."""

from collections.abc import Sequence

from pydantic import BaseModel

from jobs.registry import AuthorsFault, JobType
from jobs.storable import holds_nul

MOST_KEYS = 8
KEY_LENGTH = 200


class WrongLimitKeys(AuthorsFault):
    """A type's function named what are no limit keys."""

    code = "wrong_limit_keys"

    def __init__(self, job_type: str, why: str) -> None:
        super().__init__(job_type, f"names limit keys that are none: {why}.")


def of(job_type: JobType, params: BaseModel) -> tuple[str, ...]:
    """Of one job with these validated params, each once. Raises WrongLimitKeys."""
    named: object = job_type.limit_keys(params) if callable(job_type.limit_keys) else job_type.limit_keys
    if (why := wrong(named)) is not None:
        raise WrongLimitKeys(job_type.name, why)
    assert isinstance(named, Sequence)
    return tuple(dict.fromkeys(named))


def wrong(named: object) -> str | None:
    """Why these are no limit keys, without them: params may be in them. None if they are."""
    if not isinstance(named, tuple | list):
        return f"they must be a tuple of strings, and are a {type(named).__name__}"
    if len(named) > MOST_KEYS:
        return f"they are {len(named)}, but may be {MOST_KEYS} at most"
    if any(not isinstance(key, str) for key in named):
        return "each must be a string"
    if any(not 1 <= len(key) <= KEY_LENGTH for key in named):
        return f"each must have from 1 to {KEY_LENGTH} characters"
    if holds_nul(named):
        return "the character U+0000 cannot be stored"
    return None
