"""`ctx.http`: calls to other services in which every step is bounded by what remains of the job.

Name resolution, the wait for a bulkhead, connect, TLS, writing, each read and the whole, pauses between tries
included, end at the deadline, also when a body drips one byte a second. Each call has connections of its own, so
nothing outlives it, and none is stale when a POST needs it. The environment's proxies are not used, redirects are
answers like any other, and certificates are checked against certifi's and the machine's authorities.

    answer = ctx.http.get("https://prices.example/v1/latest", params={"currency": "EUR"}, timeout=2)

Importing this file loads httpx, so import it inside a handler or a method.
"""

import asyncio
import logging
import math
import random
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, TypedDict, TypeVar, Unpack
from uuid import UUID

import httpcore  # noqa: F401  httpx would import it inside the first call, and that has a deadline
import httpx
import structlog

from jobs import traces
from workers.bulkheads import Bulkhead
from workers.deadlines import Deadline, DeadlineExceeded
from workers.decoding import ACCEPTED, TooLarge, WrongEncoding, decoded
from workers.loops import held_to, run_within

T = TypeVar("T")

log = structlog.get_logger(__name__)
# httpx writes each URL with its query to the log, and parameters are never logged.
logging.getLogger("httpx").setLevel(logging.WARNING)

MAX_BODY_BYTES = 1024 * 1024  # as large as a job's own result may be
MAX_TRIES = 3
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = (
    0.1,
    2.0,
)  # upper ends of the first pause and of any; what a service asks for comes on top
SAFE_TO_REPEAT = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}  # RFC 9110, 9.2.2
UNAVAILABLE = {502, 503, 504}


class CallFailed(Exception):
    """A call had no usable answer; str() is one sentence that names the service but no path, query or body."""

    code = "call_failed"
    retryable = False  # whether another attempt of the job may help


class Unreachable(CallFailed):
    """No connection: refused, no such name, no trust in the certificate. Nothing was sent."""

    code = "unreachable"
    retryable = True


class ConnectionLost(CallFailed):
    """The connection ended, or spoke no HTTP, before the answer was whole. The service may have acted."""

    code = "connection_lost"
    retryable = True

    def __init__(self, sentence: str, answered: bool) -> None:
        super().__init__(sentence)
        self.answered = answered  # whether the status had come


class ServiceUnavailable(CallFailed):
    """The answer was 502, 503 or 504. `retry_after_seconds` is what the service asked for, None if nothing."""

    code = "unavailable"
    retryable = True

    def __init__(self, sentence: str, response: httpx.Response) -> None:
        super().__init__(sentence)
        self.response = response
        self.retry_after_seconds = _retry_after(response.headers.get("Retry-After", ""))


class BodyTooLarge(CallFailed):
    """The body is larger than the call allows. The rest was not read."""

    code = "body_too_large"


class BadAnswer(CallFailed):
    """The body is not what its headers say."""

    code = "bad_answer"


class WrongCall(CallFailed, ValueError):
    """The URL or a header cannot be sent."""

    code = "wrong_call"


class Options(TypedDict, total=False):
    """What get, post and request take, as in Call."""

    params: Mapping[str, Any] | None
    headers: Mapping[str, str] | None
    json: Any
    content: bytes | str | None
    timeout: float
    max_body_bytes: int
    bulkhead: Bulkhead | None


@dataclass(frozen=True)
class Call:
    """One request. Raises WrongCall for a URL that is not http(s)://host….

    params replace the URL's query. json or content is the body. timeout: seconds for the whole call, tries and pauses
    included; never longer than the job. max_body_bytes: of the decoded body. bulkhead: each try needs a place in it.
    """

    url: str
    method: str = "GET"
    params: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None
    json: Any = None
    content: bytes | str | None = None
    timeout: float = math.inf
    max_body_bytes: int = MAX_BODY_BYTES
    bulkhead: Bulkhead | None = None

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.url)
        except (httpx.InvalidURL, UnicodeError):
            raise WrongCall("The URL of a call cannot be read.") from None
        if url.scheme not in {"http", "https"} or not url.host:
            raise WrongCall("The URL of a call must begin with http:// or https:// and name a host.")

    @property
    def service(self) -> str:
        """Whom it goes to, as errors and log lines name it: no path, query or password."""
        url = httpx.URL(self.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    @property
    def is_safe_to_repeat(self) -> bool:
        keyed = any(name.lower() == "idempotency-key" for name in self.headers or {})
        return keyed or self.method.upper() in SAFE_TO_REPEAT


class Http:
    """The client of one attempt of one job; it holds nothing open between calls.

    deadline: of the attempt. job_retries: whether the job itself is tried again, which its calls then are not.
    check: called while a call waits, in the calling thread; what it raises ends the call.
    tls, jitter (0 to 1) and sleep are there to be replaced in tests and by a team with authorities of its own.
    """

    def __init__(
        self,
        deadline: Deadline,
        job_id: UUID | str,
        *,
        job_retries: bool,
        check: Callable[[], None] = lambda: None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        jitter: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        traceparent: str = "",
    ) -> None:
        self.deadline = deadline
        self._job_id = str(job_id)
        self._most_tries = 1 if job_retries else MAX_TRIES
        self._check = check
        self._tls = tls or _authorities
        self._jitter = jitter
        self._sleep = sleep
        self._traceparent = traceparent

    def get(self, url: str, **options: Unpack[Options]) -> httpx.Response:
        """The whole answer, whatever its status but 502, 503 and 504. Raises CallFailed, by kind, and DeadlineExceeded."""
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Unpack[Options]) -> httpx.Response:
        """As get; repeated only with an Idempotency-Key among its headers."""
        return self.request("POST", url, **options)

    def request(self, method: str, url: str, **options: Unpack[Options]) -> httpx.Response:
        """The answer, its body read, whatever its status but 502, 503 and 504. Raises DeadlineExceeded or CallFailed."""
        call = Call(url, method, **options)
        return self.run(lambda: self.exchange(call, self.deadline), self.deadline)

    def run(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: Deadline) -> T:
        """Run what is made of exchanges; see run_within."""
        return run_within(self.deadline.sooner(deadline), work, self._check)

    async def exchange(self, call: Call, deadline: Deadline) -> httpx.Response:
        """One call with its tries, on the running loop."""
        deadline = self.deadline.sooner(deadline).sooner(Deadline.after(call.timeout, self.deadline.clock))
        if deadline.expired:
            raise DeadlineExceeded(f"No time is left to call {call.service}.")
        late = f"{call.service} gave no whole answer within {deadline.remaining():.3f} s."
        return await held_to(deadline, self._tries(call, deadline), late)

    async def _tries(self, call: Call, deadline: Deadline) -> httpx.Response:
        tries = 0
        async with self._client(call) as client:
            while True:
                tries += 1
                try:
                    return await self._try(client, call, deadline)
                except CallFailed as failure:
                    pause = self._pause(call, failure, tries, deadline)
                    if pause is None:
                        raise
                    log.info("call_repeated", service=call.service, code=failure.code, tries=tries, pause_seconds=pause)
                await self._sleep(pause)

    def _client(self, call: Call) -> httpx.AsyncClient:
        # Reading the authorities takes 70 ms, so only where they are needed; the other context trusts nobody.
        encrypted = httpx.URL(call.url).scheme == "https"
        context = self._tls() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        limits = httpx.Limits(max_keepalive_connections=0)
        told = {"User-Agent": "weighbridge", "Connection": "close", "Accept-Encoding": ACCEPTED}
        return httpx.AsyncClient(verify=context, trust_env=False, timeout=None, limits=limits, headers=told)

    def _pause(self, call: Call, failure: CallFailed, tries: int, deadline: Deadline) -> float | None:
        """Seconds until the next try; None when there is none, also because no time is left for it."""
        if tries >= self._most_tries or not _may_repeat(call, failure):
            return None
        pause = self._jitter() * min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (tries - 1))
        if isinstance(failure, ServiceUnavailable):
            pause += failure.retry_after_seconds or 0
        return round(pause, 3) if pause < deadline.remaining() else None

    async def _try(self, client: httpx.AsyncClient, call: Call, deadline: Deadline) -> httpx.Response:
        async with call.bulkhead.place(deadline) if call.bulkhead else nullcontext(), _Connections() as connections:
            answered = False
            request = {"params": call.params, "json": call.json, "content": call.content}
            try:
                request |= {"headers": self._headers(call, deadline), "extensions": {"trace": connections.trace}}
                async with client.stream(call.method, call.url, **request) as answer:
                    answered = True
                    content = await _content(answer, call)
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                raise _failure(error, call.service, answered) from error
        response = _whole(answer, content)
        if response.status_code in UNAVAILABLE:
            raise ServiceUnavailable(f"{call.service} answered {response.status_code}.", response)
        return response

    def _headers(self, call: Call, deadline: Deadline) -> httpx.Headers:
        headers = httpx.Headers(call.headers)
        headers["X-Weighbridge-Job"] = self._job_id
        if self._traceparent and "traceparent" not in headers:
            headers["traceparent"] = traces.onward(self._traceparent)
        if math.isfinite(remaining := deadline.remaining()):
            headers["X-Deadline-Ms"] = str(int(remaining * 1000))
        return headers


class _Connections:
    """Closes what one try opened: httpcore forgets a connection whose TLS handshake is cancelled."""

    def __init__(self) -> None:
        self._opened: list[Any] = []

    async def trace(self, event: str, told: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._opened.append(told["return_value"])

    async def __aenter__(self) -> "_Connections":
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in self._opened:
            await stream.aclose()


@cache
def _authorities() -> ssl.SSLContext:
    """certifi's, and those of the machine, to which the variable SSL_CERT_FILE adds a company's own."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


async def _content(answer: httpx.Response, call: Call) -> bytes:
    try:
        return await decoded(answer.aiter_raw(), answer.headers.get("content-encoding", ""), call.max_body_bytes)
    except TooLarge:
        raise BodyTooLarge(f"The answer of {call.service} is larger than {call.max_body_bytes} bytes.") from None
    except WrongEncoding:
        raise BadAnswer(f"The body that {call.service} sent is not encoded as its headers say.") from None


def _whole(answer: httpx.Response, content: bytes) -> httpx.Response:
    """The answer with its decoded body; headers that describe the encoded one are left out."""
    left_out = {b"content-encoding", b"content-length"} if "content-encoding" in answer.headers else set()
    # As they came: a name of a file, say, may be in any encoding.
    headers = [(name, value) for name, value in answer.headers.raw if name.lower() not in left_out]
    told: dict[str, Any] = {
        key: answer.extensions[key] for key in ("http_version", "reason_phrase") if key in answer.extensions
    }
    whole = httpx.Response(
        answer.status_code, headers=headers, content=content, request=answer.request, extensions=told
    )
    whole.elapsed = answer.elapsed
    return whole


def _may_repeat(call: Call, failure: CallFailed) -> bool:
    if isinstance(failure, Unreachable):
        return not isinstance(_root(failure), ssl.SSLCertVerificationError)
    lost = isinstance(failure, ConnectionLost) and not failure.answered
    return call.is_safe_to_repeat and (lost or isinstance(failure, ServiceUnavailable))


def _failure(error: Exception, service: str, answered: bool) -> CallFailed:
    root = _root(error)
    if isinstance(error, httpx.ConnectError):
        return Unreachable(f"{service} could not be reached: {getattr(root, 'strerror', None) or root}.")
    if isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
        return ConnectionLost(f"The connection to {service} ended before the answer was whole.", answered)
    return WrongCall(f"The call to {service} cannot be sent: its path, query or a header is malformed.")


def _root(error: BaseException) -> BaseException:
    """What the libraries wrapped. httpcore raises some errors `from None`, so their context counts as their cause."""
    while True:
        grouped = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        inner = grouped or error.__cause__ or error.__context__
        if inner is None:
            return error
        error = inner


def _retry_after(value: str) -> float | None:
    """Seconds, from either form of the header."""
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a time zone
        return None
