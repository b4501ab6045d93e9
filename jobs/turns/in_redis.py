"""The turns of all web processes, in Redis: each call is one script, so one step, by Redis' clock (P10).

Of a class there are the last turn and what a departure took then (a hash), its turns (a sorted set), who wants room in it (another), and a mark while anyone is
expected; of each client in it when its turns are, and until when their callers count as returned (two sorted sets), at what share of them it came lately, and of one that has its
share the last turn behind it and what a departure took (a hash), and these turns (a sorted set). All of them expire.
"""

import uuid
from functools import cache
from typing import Any

from jobs import broker
from jobs.capacity import RETRY_AFTER_CAP_SECONDS
from jobs.decision import SEEN_SECONDS
from jobs.turns.book import GRACE_SECONDS, GRACE_SHARE, NEWEST_COUNTS, SHARED_SECONDS, Caller, Refusal, Seen, Turn

TOLD_CLIENTS = 100  # of those that other processes refused, the newest
_PREFIX = "weighbridge:turns"


class InRedis:
    """Raises what broker.AWAY names while Redis is away."""

    def arrive(self, cost_class: str, caller: Caller, departures: int) -> Seen:
        asked = [caller.key or "", departures, GRACE_SECONDS]
        returned, near, departure, own_near = _ask(_ARRIVE, cost_class, caller, asked)
        return Seen(bool(returned), int(near), float(departure), int(own_near))

    def take(self, cost_class: str, caller: Caller, refusal: Refusal) -> Turn:
        name = f"-{uuid.uuid4().hex}" if caller.key is None else caller.key
        asked = [name, refusal.base, refusal.spacing, refusal.departure, refusal.jitter, refusal.most]
        whose = [int(refusal.over_share), int(refusal.wants_room)]
        limits = [RETRY_AFTER_CAP_SECONDS, GRACE_SECONDS, GRACE_SHARE, SEEN_SECONDS, TOLD_CLIENTS, SHARED_SECONDS]
        seconds, *others = _ask(_TAKE, cost_class, caller, [*asked, *whose, *limits])
        told = zip(map(int, others[::2]), map(float, others[1::2]), strict=True)
        return Turn(int(seconds), tuple(told))

    def anyone_expected(self, cost_class: str) -> bool:
        return bool(broker.ask(lambda client: client.exists(f"{_PREFIX}:{cost_class}:expected")))


def _ask(script: str, cost_class: str, caller: Caller, arguments: list[Any]) -> Any:
    of_class, of_client = f"{_PREFIX}:{cost_class}", f"{_PREFIX}:{cost_class}:{caller.client}"
    names = [of_class, *(f"{of_class}:{what}" for what in ("all", "wanting", "expected"))]
    names += [f"{of_client}:{what}" for what in ("at", "until", "own", "all")]
    both = [caller.client, NEWEST_COUNTS]
    return broker.ask(lambda client: _script(script)(names, [*both, *arguments], client))


@cache
def _script(text: str) -> Any:
    return broker.client().register_script(text)


# InProcess in Lua, step by step. Instants are seconds. A millisecond is taken off before rounding up: doubles of today's seconds are
# exact to a quarter of a microsecond only, and a whole number must stay what it is.
_BOTH = """
local class, all, wanting, expected, at_of, until_of, own, own_all = unpack(KEYS)
local client, newest_counts = ARGV[1], tonumber(ARGV[2])
local t = redis.call('TIME') local now = t[1] + t[2] / 1e6
local function text(x) return string.format('%.6f', x) end
local function number(x) return tonumber(x or false) end
local function strike(member)
    redis.call('ZREM', at_of, member)
    redis.call('ZREM', until_of, member)
    redis.call('ZREM', all, client .. ':' .. member)
    redis.call('ZREM', own_all, member)
end
local function note(came)
    local share = number(redis.call('HGET', own, 'came')) or 1
    redis.call('HSET', own, 'came', text(share + (came - share) * newest_counts))
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', until_of, '-inf', '(' .. text(now))) do
    strike(gone)
    note(0)
end
"""

_ARRIVE = (
    _BOTH
    + """
local key, departures, grace = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
for _, member in ipairs(redis.call('ZRANGEBYSCORE', at_of, '-inf', text(now))) do
    if member == key or key == '' and string.sub(member, 1, 1) == '-' then
        strike(member)
        note(1)
        return {1, 0, '0', 0}
    end
end
local function departure(line) return redis.call('HGET', line, 'departure') or '0' end
local function near(turns, line)
    return redis.call('ZCOUNT', turns, text(now - grace), text(now + departures * tonumber(departure(line))))
end
return {0, near(all, class), departure(class), near(own_all, own)}
"""
)

_TAKE = (
    _BOTH
    + """
local member, base, spacing, departure = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local jitter, most, over_share, wants_room = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1', ARGV[10] == '1'
local cap, grace, grace_share = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local seen, told_clients, shared = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local function left(at) return math.max(1, math.min(cap, math.ceil(at - now - 0.001))) end
local function keep(name, seconds)
    if redis.call('TTL', name) < seconds then redis.call('EXPIRE', name, math.ceil(seconds)) end
end
local function answer(at)
    local told = {left(at)}
    for place, value in ipairs(redis.call('ZREVRANGE', wanting, 0, told_clients - 1, 'WITHSCORES')) do
        if place % 2 == 0 then value = text(math.max(0, now - value)) end
        table.insert(told, value)
    end
    return told
end
redis.call('ZREMRANGEBYSCORE', wanting, '-inf', text(now - seen))
if wants_room then
    redis.call('ZADD', wanting, text(now), client)
    keep(wanting, seen)
end
local held = number(redis.call('ZSCORE', at_of, member))
if held and held > now then return answer(held) end
if held then strike(member) end
if redis.call('ZCOUNT', at_of, '(' .. text(now), '+inf') >= most then
    return answer(number(redis.call('ZRANGE', at_of, -1, -1, 'WITHSCORES')[2]))
end
while redis.call('ZCARD', at_of) >= 2 * most do strike(redis.call('ZRANGE', at_of, 0, 0)[1]) end
local line, turns, name = class, all, client .. ':' .. member
if over_share then redis.call('HSET', own, 'had_its_share_at', text(now)) end
if (number(redis.call('HGET', own, 'had_its_share_at')) or 0) > now - shared then
    line, turns, name = own, own_all, member
    if not over_share then
        spacing, departure = unpack(redis.call('HMGET', own, 'spacing', 'departure'))
        spacing, departure = number(spacing), number(departure)
    end
end
local last = number(redis.call('HGET', line, 'last'))
local turn = now + base
if last then turn = math.max(turn, last + spacing) end
turn = math.min(turn, now + cap)
local at = math.min(turn + math.floor(left(turn) * jitter), now + cap)
local ends = at + math.max(grace, grace_share * (at - now))
redis.call('HSET', line, 'last', text(turn), 'spacing', text(spacing), 'departure', text(departure))
redis.call('ZADD', at_of, text(at), member)
redis.call('ZADD', until_of, text(ends), member)
redis.call('ZREMRANGEBYSCORE', turns, '-inf', '(' .. text(now - grace))
local to_keep = (number(redis.call('HGET', own, 'to_keep')) or 0) + (number(redis.call('HGET', own, 'came')) or 1)
if to_keep > 1 - 1e-5 then
    to_keep = to_keep - 1
    redis.call('ZADD', turns, text(at), name)
    keep(turns, ends - now)
end
redis.call('HSET', own, 'to_keep', text(to_keep))
redis.call('SETNX', expected, 1)
keep(expected, ends - now)
keep(line, 2 * cap)
keep(own, 2 * cap)
keep(at_of, 2 * cap)
keep(until_of, 2 * cap)
return answer(at)
"""
)
