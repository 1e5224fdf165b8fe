"""The effects that the core asks for, and their results.

A generator of the core yields one of the effects, and is sent the result that is named beside it. The client that
performs effects closes every connection that the generator has not released, also when the generator is stopped half
way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generator, Generic, NamedTuple, Optional, TypeVar, Union

T = TypeVar("T")


class Connection:
    """A connection as the core knows it: only its identity."""

    #: It served a request before, so the agent may have closed it meanwhile.
    is_used: bool = False


@dataclass(frozen=True)
class Connect:
    """Opens a connection, or takes one that was released.

    Result: a :class:`Connection` or a :class:`ConnectFailure`.
    """

    timeout: float
    #: A connection that was released before will not do.
    is_fresh: bool = False
    #: It stays for long: it does not count against the connections for short requests.
    is_feed: bool = False


class ConnectFailure(NamedTuple):
    """No connection came about. ``errno`` is 0 where the system gave none: the time was over."""

    errno: int
    sentence: str


@dataclass(frozen=True)
class Transfer:
    """Writes some of ``data``, or reads what is there, whichever is possible first. Result: :class:`Moved`."""

    connection: Connection
    data: Union[bytes, memoryview]
    #: Seconds to wait until something is possible.
    timeout: float
    #: A descriptor that goes with the first byte of ``data``.
    descriptor: Optional[int] = None


class Moved(NamedTuple):
    """Result of a transfer. If no member is set, the time was over."""

    written: int = 0
    received: bytes = b""
    #: The other side closed its end.
    is_at_end: bool = False
    #: Reason why the connection cannot be used any more.
    failure: Optional[str] = None


@dataclass(frozen=True)
class Release:
    """Gives the connection back. Result: nothing."""

    connection: Connection
    #: It can carry another request; otherwise it is closed.
    is_reusable: bool


@dataclass(frozen=True)
class Pause:
    """Waits. Result: nothing."""

    seconds: float


@dataclass(frozen=True)
class Fetch:
    """Asks the caller's source for its next part. Result: the part, or :data:`END`.

    The source is an iterator, or a file; then the part has at most ``size`` bytes.
    """

    size: int = 0


@dataclass(frozen=True)
class Rewind:
    """Puts the caller's file back to where it began. Result: whether that is possible."""


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Hands a value to the caller, who may take any time. Result: nothing."""

    value: T


class _End:
    def __repr__(self) -> str:
        return "END"


#: The source has nothing more.
END = _End()

Effect = Union[Connect, Transfer, Release, Pause, Fetch, Rewind, Emit[Any]]

#: A call: yields effects, and returns a value in the end.
Steps = Generator[Effect, Any, T]
