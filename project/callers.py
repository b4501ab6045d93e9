"""Who calls, as far as the event loop knows: it asks no database, so it learns whose a key is, or a session of the admin, from the answers to
requests that came with it.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable

from project import heads
from project.wsgi_call import Answer, Message

MOST_KEYS = 10_000  # so many hashes are a megabyte or two


class Callers:
    """Keys by their hashes, those used last; whoever has none of them is a stranger, as all strangers are one."""

    def __init__(self, most_keys: int = MOST_KEYS, session_cookie: str = "sessionid") -> None:
        self._most_keys, self._session_cookie = most_keys, session_cookie
        self._of: OrderedDict[bytes, Hashable] = OrderedDict()

    def owner_of(self, scope: Message) -> Hashable:
        """None for a stranger."""
        key = self._hashed(scope)
        if key is None or key not in self._of:
            return None
        self._of.move_to_end(key)
        return self._of[key]

    def learn(self, scope: Message, answer: Answer | None) -> None:
        """An answer that says whose it is came of a key that is good; a 401, of one that is not, or not any more."""
        key = self._hashed(scope)
        if answer is None or key is None:
            return
        if answer.owner is not None:
            self._of[key] = answer.owner
            if len(self._of) > self._most_keys:
                self._of.popitem(last=False)
        elif answer.status == 401:
            self._of.pop(key, None)

    def _hashed(self, scope: Message) -> bytes | None:
        given = heads.credentials(scope, self._session_cookie)
        return hashlib.sha256(given).digest() if given else None
