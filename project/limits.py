"""How much of everything a web process takes at once, and how long it waits for what."""

from collections.abc import Callable
from dataclasses import dataclass

from project.places import Share
from project.streams import Pace


@dataclass(frozen=True)
class Limits:
    """threads: requests in Django at once. waiting: of those that are whole, how many may wait for a thread, in all and of one owner,
    so that one who asks for hundreds at once leaves turns for others, and how long.

    again_seconds: how long one waits for a thread that was held, since all who wait for one job are told at once, or that has yet to send
    its file, and costs a connection meanwhile and no more.
    body_bytes: by path, the largest body that could be acceptable. held: the bytes of all bodies at once, and of those of one owner. refuses_by_length: whether
    Django says of a longer one that it is too long, from its length alone; where it would not look, the answer is ours. needs_key: whether Django takes bodies
    at this path of nobody but who has a key, and can say so before it has one. streams: by method and path, whether the
    body goes into a sink; pace: how fast it must come; streamed: how many may be on their way at once, and how many of one owner, so that one whose
    many files come slowly leaves places for others. sent: the same of files that go out; taking_seconds: how long a piece of one may be on its way.
    stored: how many whole bodies at once are passed on, to be written where they stay: a slow disk must leave threads for others;
    storing_seconds: how long one waits for that.
    """

    body_bytes: Callable[[str], int]
    refuses_by_length: Callable[[str], bool]
    threads: int = 4
    waiting: Share = Share(512, 256)
    wait_seconds: float = 2.0
    again_seconds: float = 10.0
    body_seconds: float = 30.0
    stop_seconds: float = 8.0
    held: Share = Share(64 * 1024 * 1024, 16 * 1024 * 1024)
    needs_key: Callable[[str], bool] = lambda path: False
    streams: Callable[[str, str], bool] = lambda method, path: False
    pace: Pace = Pace(30.0, 16_384)
    streamed: Share = Share(128, 32)
    sent: Share = Share(128, 32)
    taking_seconds: float = 30.0
    stored: int = 2
    storing_seconds: float = 30.0
