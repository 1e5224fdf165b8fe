"""Decides whether a call that failed is tried again, and when. Time and randomness are handed in."""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass, field
from typing import Callable, Optional

from ..errors import EdgeSyncError, NoSocket, OutcomeUnknown, Refused


@dataclass(frozen=True)
class RetryPolicy:
    """The patience of a client.

    The wait before try n is random between half of ``first_wait * 2**(n - 2)`` and the whole of it, and at most
    ``longest_wait``: 0.05 to 0.1 s, 0.1 to 0.2 s, 0.2 to 0.4 s … 2.5 to 5 s. A ``Retry-After`` of the agent counts as
    the least, and up to a fifth of it is added, so that many apps do not come back at the same moment.
    """

    first_wait: float = 0.1
    longest_wait: float = 5.0
    #: Seconds in which a socket that is not there may appear, before the first connection of this client. A wrong path
    #: is told after that time. Once the client was connected, the agent must be restarting, and the whole deadline
    #: counts.
    absent_patience: float = 2.0

    def wait(self, tries: int, draw: float, retry_after: Optional[int] = None) -> float:
        """Seconds before the next try.

        :param tries: Tries that failed so far, at least 1.
        :param draw: A random number from 0 to 1.
        """
        # The exponent is limited because a feed may fail a million times.
        longest = min(self.longest_wait, self.first_wait * 2.0 ** min(tries - 1, 30))
        wait = longest * (0.5 + 0.5 * draw)
        return wait if retry_after is None else max(wait, retry_after * (1.0 + 0.2 * draw))

    def decide(
        self,
        error: EdgeSyncError,
        *,
        tries: int,
        was_sent: bool,
        is_repeatable: bool,
        was_connected: bool,
        elapsed: float,
        left: float,
        draw: float,
    ) -> Optional[float]:
        """Decides what follows a try that failed.

        :param was_sent: Bytes of the request may have reached the agent, and it did not refuse it.
        :param is_repeatable: The agent applies the request at most once, however often it comes.
        :param was_connected: The client had a connection before.
        :param elapsed: Seconds since the call began.
        :param left: Seconds until its deadline.
        :returns: Seconds to wait before the next try; ``None``: give up, and tell the error.
        """
        if not error.is_transient:
            return None
        may_have_applied = was_sent and (not isinstance(error, Refused) or isinstance(error, OutcomeUnknown))
        if may_have_applied and not is_repeatable:
            return None
        if isinstance(error, NoSocket) and not was_connected and elapsed >= self.absent_patience:
            return None
        wait = self.wait(tries, draw, error.retry_after if isinstance(error, Refused) else None)
        # There is no use in a wait that ends behind the deadline: the caller learns now what the matter is.
        return wait if wait < left else None


def _new_key() -> str:
    return f"edgesync-{uuid.uuid4().hex}"


@dataclass(frozen=True)
class Environment:
    """Time, randomness and patience, which the core gets from outside."""

    #: Seconds of a clock that never jumps.
    now: Callable[[], float] = time.monotonic
    #: A random number from 0 to 1.
    draw: Callable[[], float] = random.random
    #: A new idempotency key that no other call has.
    new_key: Callable[[], str] = _new_key
    policy: RetryPolicy = field(default_factory=RetryPolicy)
