"""Every code of a problem (RFC 9457): its title, its status, and whether it is of use to come back. Those of the door, and those of the rest of the API."""

from jobs.door.refusals import REFUSALS, RefusalKind

CODES = REFUSALS | {
    "bad_request": RefusalKind("The request cannot be read.", 400),
    "digest_mismatch": RefusalKind("The body is not what its sender meant.", 400),
    "forbidden": RefusalKind("This key may not do that.", 403),
    "internal_error": RefusalKind("Something went wrong here.", 500),
    "method_not_allowed": RefusalKind("This address does not take that method.", 405),
    "no_result": RefusalKind("This job has no result.", 409),
    "not_cancellable": RefusalKind("The job has already ended.", 409),
    "not_finished": RefusalKind("The job has not ended yet.", 409, retryable=True),
    "not_found": RefusalKind("There is nothing here.", 404),
    "precondition_failed": RefusalKind("A condition of the request does not hold.", 412),
    "range_not_satisfiable": RefusalKind("There is no such part.", 416),
    "result_gone": RefusalKind("The result is no longer kept.", 410),
    "too_slow": RefusalKind("The request came too slowly.", 408, retryable=True),
    "too_many_transfers": RefusalKind("This client sends or takes too many files at once.", 429, retryable=True),
    "unauthorized": RefusalKind("A valid key is needed.", 401),
    "unsupported_media_type": RefusalKind("The body is not of a type that is taken here.", 415),
    "upload_in_use": RefusalKind("A job needs this upload.", 409),
    "uploads_full": RefusalKind("This client keeps as much as it may.", 429, retryable=True),
}
