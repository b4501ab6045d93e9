"""The Sentry recipe of docs/authors.md, with the real SDK and a transport that keeps what would be sent."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sentry_sdk
from django.test import override_settings
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from jobs.lifecycle import Claim
from tests.unit.test_authors_docs import block
from workers import reporting

SECRET = "xyzzy"


class Kept(Transport):
    """Sends nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.envelopes: list[Envelope] = []
        self.flushed = 0

    def capture_envelope(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)

    def flush(self, timeout: float, callback: Any = None) -> None:
        self.flushed += 1


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """What the recipe sends; it is imported as the page prints it."""
    (tmp_path / "error_tracker.py").write_text(block("error_tracker.py"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.invalid/1")
    importlib.import_module("error_tracker")
    transport = Kept()
    client = sentry_sdk.get_client()
    assert client.transport is not None
    client.transport.kill()
    client.transport = transport
    with override_settings(WEIGHBRIDGE_ON_ATTEMPT_FAILED="error_tracker.report"):
        yield transport
    client.close()
    sentry_sdk.get_global_scope().set_client(None)
    del sys.modules["error_tracker"]
    reporting.on_attempt_failed.cache_clear()


@pytest.fixture
def claim() -> Claim:
    return Claim(
        job_id=uuid4(),
        attempt=2,
        token=7,
        type="my.invoice",
        cost_class="light",
        params={"card": SECRET},
        limit_seconds=10,
        remaining_seconds=None,
        failures=1,
        max_attempts=3,
        wait_seconds=0,
        request_id="r-1",
    )


def _handler(params: dict[str, str]) -> None:
    card = params["card"]
    raise RuntimeError("The bank said no." if card else "")


def _error(claim: Claim) -> RuntimeError:
    with pytest.raises(RuntimeError) as raised:
        _handler(claim.params)
    return raised.value


def test_the_exception_arrives_with_its_tags(sent: Kept, claim: Claim) -> None:
    reporting.attempt_failed(_error(claim), claim)
    (envelope,) = sent.envelopes
    event = envelope.get_event()
    assert event is not None
    assert event["tags"] == {"job.type": "my.invoice", "job.id": str(claim.job_id), "job.attempt": 2}
    (exception,) = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("RuntimeError", "The bank said no.")
    assert exception["stacktrace"]["frames"][-1]["function"] == "_handler"
    assert sent.flushed == 1


def test_no_param_is_in_anything_that_is_sent(sent: Kept, claim: Claim) -> None:
    reporting.attempt_failed(_error(claim), claim)
    assert SECRET not in _text(sent)


def test_with_the_sdks_defaults_a_param_would_be_sent(sent: Kept, claim: Claim) -> None:
    """So the test above can fail."""
    sentry_sdk.init(default_integrations=False, transport=sent)
    reporting.attempt_failed(_error(claim), claim)
    assert SECRET in _text(sent)


def test_one_jobs_tags_are_not_on_the_next(sent: Kept, claim: Claim) -> None:
    reporting.attempt_failed(_error(claim), claim)
    sentry_sdk.capture_message("of something else")
    event = sent.envelopes[-1].get_event()
    assert event is not None
    assert not event.get("tags")


def _text(sent: Kept) -> str:
    assert sent.envelopes
    return "\n".join(envelope.serialize().decode(errors="replace") for envelope in sent.envelopes)
