"""When a refused caller should come back, so that callers who are refused in a row are sent to different turns (P10, P32).

The turns of a class are kept in Redis, for all web processes, by Redis' own clock; while Redis is away each process keeps
its own. A turn belongs to a caller's key, so that whoever asks again too soon is told the same one. Nothing here decides
who is admitted: a turn that is lost costs a caller one more try.
"""

import hashlib
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from jobs import broker, queries, refused_lately, tally
from jobs.capacity import RETRY_AFTER_CAP_SECONDS, Room
from jobs.classes import CostClass
from jobs.decision import SEEN_SECONDS, Share
from jobs.kept import Kept
from jobs.local_turns import LocalTurns

PACED = frozenset({"queue_full", "share_full", "deadline_unreachable"})  # reasons that departures put right
TOLD_CLIENTS = 100  # of those that other processes refused, the newest
JITTER_SHARE = 0.1  # of the wait, at most; never less than the turn, or callers would come for nothing


@dataclass(frozen=True)
class Caller:
    """Whose turn it is. `key` is its Idempotency-Key or outbox entry; None: this one request's, which cannot come again."""

    client: int
    key: str | None


def retry_after(
    reason: str, caller: Caller, room: Room, cost_class: CostClass, places: int = 1, share: Share | None = None
) -> int:
    """Whole seconds, 1 to the cap, for a caller that was refused so many places in this room.

    Who has its share is sent to turns of its own, at its part of the departures (P10a): behind them the turns of others would be as late as the share's.
    """
    rate = queries.departures_per_second(cost_class, room)
    base = queries.retry_after_seconds(cost_class, room, places, share)
    if reason in refused_lately.WANT_ROOM:
        refused_lately.HERE.note(cost_class.name, caller.client)
    if reason not in PACED or room.slots == 0:
        return base
    part = 1.0 if share is None else share.part
    spacing = places / (rate * part) if rate else cost_class.retry_after_seconds * places / (room.slots * part)
    wants_room = reason in refused_lately.WANT_ROOM
    return _taken(caller, cost_class, base, spacing, wants_room=wants_room, over_share=share is not None)


def admitted(caller: Caller, cost_class: CostClass) -> None:
    """Count it if it came at its turn. Without a key, or in a class that refused nobody lately, Redis is not asked."""
    if caller.key is None or not _refused_lately(cost_class.name):
        return
    came = _either(
        lambda: broker.ask(lambda client: _came()(_names(cost_class.name, caller), [_hidden(caller.key)], client)),
        lambda: _LOCAL.came(cost_class.name, caller.client, _hidden(caller.key)),
    )
    if int(came):
        tally.returned(cost_class.name, admitted=True)


def _taken(
    caller: Caller,
    cost_class: CostClass,
    base: float,
    spacing: float,
    *,
    wants_room: bool = False,
    over_share: bool = False,
) -> int:
    member, most = _hidden(caller.key), max(1, cost_class.max_waiting)
    again, jitter = int(caller.key is not None), random.random() * JITTER_SHARE
    line = f"{cost_class.name}:{caller.client}" if over_share else cost_class.name
    names = [*_names(cost_class.name, caller), f"{_PREFIX}:{line}", f"{_PREFIX}:{cost_class.name}:wanting"]
    wants = caller.client if wants_room else ""
    arguments = [member, base, spacing, jitter, most, RETRY_AFTER_CAP_SECONDS, again, wants, SEEN_SECONDS, TOLD_CLIENTS]
    seconds, returned, *others = _either(
        lambda: broker.ask(lambda client: _take()(names, arguments, client)),
        lambda: _LOCAL.take(cost_class.name, caller.client, member, base, spacing, jitter, most, bool(again), line),
    )
    for client, ago in zip(others[::2], others[1::2], strict=True):
        refused_lately.HERE.note(cost_class.name, int(client), float(ago))
    if int(returned):
        tally.returned(cost_class.name, admitted=False)
    return int(seconds)


def _either(shared: Callable[[], Any], own: Callable[[], Any]) -> Any:
    try:
        return shared()
    except broker.AWAY:
        return own()


def _look(cost_class: str) -> bool:
    return bool(
        _either(
            lambda: broker.ask(
                lambda client: client.exists(f"{_PREFIX}:{cost_class}", f"{_PREFIX}:{cost_class}:wanting")
            ),
            lambda: _LOCAL.refused_lately(cost_class),
        )
    )


_refused_lately = Kept(_look)
_LOCAL = LocalTurns()
_PREFIX = "weighbridge:turns"


def _names(cost_class: str, caller: Caller) -> list[str]:
    """Of the class's last turn, and of the client's turns: when each is, and until when its caller counts as returned. A turn is taken behind the last one of its line,
    which is the class's or of a client that has its share, and beside those that want room."""
    of_client = f"{_PREFIX}:{cost_class}:{caller.client}"
    return [f"{_PREFIX}:{cost_class}", f"{of_client}:at", f"{of_client}:until"]


def _hidden(key: str | None) -> str:
    """No caller's key lies in Redis in the clear."""
    return hashlib.sha256((uuid.uuid4().hex if key is None else key).encode()).hexdigest()[:32]


def forget() -> None:
    """What this process knows; for tests."""
    _refused_lately.forget()
    _LOCAL.forget()


# LocalTurns in Lua, step by step, and as one step for all processes. Instants are seconds. A millisecond is taken off before rounding up:
# doubles of today's seconds are exact to a quarter of a microsecond only, and a whole number must stay what it is.
_CLOCK = "local t = redis.call('TIME') local now = t[1] + t[2] / 1e6 "

_TAKE = (
    _CLOCK
    + """
local member, base, spacing, jitter = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most, cap, again = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
local wants, seen = ARGV[8], tonumber(ARGV[9])
local function text(x) return string.format('%.6f', x) end
local function answer(seconds, returned)
    local told = {seconds, returned}
    for number, value in ipairs(redis.call('ZREVRANGE', KEYS[5], 0, ARGV[10] - 1, 'WITHSCORES')) do
        if number % 2 == 0 then value = text(math.max(0, now - value)) end
        table.insert(told, value)
    end
    return told
end
local function left(at) return math.max(1, math.min(cap, math.ceil(at - now - 0.001))) end
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', text(now - seen))
if wants ~= '' then
    redis.call('ZADD', KEYS[5], text(now), wants)
    redis.call('EXPIRE', KEYS[5], 2 * cap)
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(now))) do
    redis.call('ZREM', KEYS[2], gone)
    redis.call('ZREM', KEYS[3], gone)
end
local returned, held = 0, tonumber(redis.call('ZSCORE', KEYS[2], member) or false)
if held and held > now then return answer(left(held), 0) end
if held then
    returned = 1
    redis.call('ZREM', KEYS[2], member)
    redis.call('ZREM', KEYS[3], member)
end
if redis.call('ZCOUNT', KEYS[2], '(' .. text(now), '+inf') >= most then
    return answer(left(tonumber(redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2])), returned)
end
local last = tonumber(redis.call('GET', KEYS[4]) or false)
local turn = now + base
if last then turn = math.max(turn, last + spacing) end
turn = math.min(turn, now + cap)
local at = math.min(turn + math.floor(left(turn) * jitter), now + cap)
local grace = 0
if again then grace = math.max(5, (at - now) / 4) end
while redis.call('ZCARD', KEYS[2]) >= 2 * most do
    redis.call('ZREM', KEYS[3], redis.call('ZPOPMIN', KEYS[2])[1])
end
redis.call('SET', KEYS[4], text(turn), 'EX', 2 * cap)
redis.call('ZADD', KEYS[2], text(at), member)
redis.call('ZADD', KEYS[3], text(at + grace), member)
redis.call('EXPIRE', KEYS[2], 2 * cap)
redis.call('EXPIRE', KEYS[3], 2 * cap)
return answer(left(at), returned)
"""
)

_CAME = (
    _CLOCK
    + """
local at, ends = redis.call('ZSCORE', KEYS[2], ARGV[1]), redis.call('ZSCORE', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
if at and ends and tonumber(at) <= now and now <= tonumber(ends) then return 1 end
return 0
"""
)


@cache
def _take() -> Any:
    return broker.client().register_script(_TAKE)


@cache
def _came() -> Any:
    return broker.client().register_script(_CAME)
