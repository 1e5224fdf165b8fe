"""One request and its answer over one connection, and the tries of one call."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Union

from ..errors import (
    BadAnswer,
    BrokenAnswer,
    DeadlinePassed,
    EdgeSyncError,
    InvalidArgument,
    NoSocket,
    SocketNotPermitted,
    Unreachable,
)
from . import answers, http, jsontext, limits
from .effects import END, Connect, ConnectFailure, Connection, Fetch, Moved, Pause, Release, Rewind, Steps, T, Transfer
from .requests import FileBody, Request
from .retry import Environment


@dataclass
class Session:
    """State that one client keeps between its calls."""

    socket_path: str
    #: Seconds that a call may take, unless it says so itself.
    deadline: float
    environment: Environment = field(default_factory=Environment)
    #: A connection came about before.
    was_connected: bool = False
    #: Fields that every request has besides its own.
    fields: Mapping[str, str] = field(default_factory=dict)

    def call(self, deadline: Optional[float] = None) -> "Call":
        return Call(self, self.deadline if deadline is None else deadline)


class Call:
    """The time of one call."""

    def __init__(self, session: Session, deadline: float) -> None:
        if not deadline > 0:
            raise InvalidArgument(f"a deadline is a number of seconds above 0, and not {deadline!r}")
        self.session = session
        self.environment = session.environment
        self.deadline = deadline
        self.began = self.environment.now()

    @property
    def elapsed(self) -> float:
        return self.environment.now() - self.began

    @property
    def left(self) -> float:
        return self.deadline - self.elapsed

    def check(self) -> None:
        """:raises DeadlinePassed: The time is over."""
        if self.left <= 0:
            raise DeadlinePassed(f"there was no answer within {self.deadline:g} s")


class Answer(NamedTuple):
    """An answer as a whole."""

    status: int
    fields: Dict[str, str]
    body: bytes


class Exchange:
    """One request on one connection, sent and read at the same time.

    The agent may answer before it has read the whole request, and may stop reading while its answers are not read. So
    each step moves whatever can be moved, in either direction.
    """

    def __init__(self, call: Call, request: Request, connection: Connection) -> None:
        self.reader = http.AnswerReader()
        #: Bytes of the request have left this process.
        self.was_sent = False
        self._call = call
        self._request = request
        self._connection = connection
        body = request.body
        self._file = body if isinstance(body, FileBody) else None
        self._file_left = None if self._file is None else self._file.size
        # The part of the file behind the one that is sent: the last one is not sent before the end was seen.
        self._ahead: Optional[bytes] = None
        head = request.head_with(call.session.fields) if call.session.fields else request.head
        self._out: Union[bytes, memoryview] = memoryview(head + body if isinstance(body, bytes) else head)
        self._descriptor = request.descriptor
        # The agent reads no more of the request.
        self._is_cut = False

    @property
    def is_whole(self) -> bool:
        """The request was sent and the answer read, both to the end, so the connection is free."""
        return self.reader.is_complete and self.reader.keeps_connection and not self._has_more and not self._is_cut

    @property
    def was_stale(self) -> bool:
        """The agent had closed the connection before this request came."""
        return self._connection.is_used and not self.reader.has_begun

    def read_head(self) -> Steps[None]:
        """Sends until the head of the answer is there."""
        while self.reader.status == 0:
            yield from self._move()

    def read_piece(self) -> Steps[bytes]:
        """The next bytes of the body; empty at its end."""
        while True:
            piece = self.reader.take()
            if piece or self.reader.is_complete:
                return piece
            yield from self._move()

    def read_all(self, bytes_max: int = limits.ANSWER_BYTES) -> Steps[Answer]:
        """The whole answer.

        :raises BadAnswer: It has more than ``bytes_max``.
        """
        yield from self.read_head()
        body = bytearray()
        while True:
            piece = yield from self.read_piece()
            if not piece:
                return Answer(self.reader.status, self.reader.fields, bytes(body))
            body += piece
            if len(body) > bytes_max:
                raise BadAnswer(f"the answer has more than {bytes_max} bytes")

    @property
    def _has_more(self) -> bool:
        """There is more of the request to send."""
        return len(self._out) > 0 or self._file is not None

    def _move(self) -> Steps[None]:
        if not self._out and self._file is not None:
            yield from self._fetch()
        self._call.check()
        silence = min(self._request.silence, self._call.left)
        moved: Moved = yield Transfer(self._connection, self._out, silence, self._descriptor)
        if moved.written:
            self.was_sent = True
            self._descriptor = None
            self._out = self._out[moved.written :]
        if moved.received:
            self.reader.feed(moved.received)
            # A refusal, and the agent does not want the rest.
            if self.reader.status >= 400 and self._has_more:
                self._stop_sending()
        if moved.failure is not None and self._has_more:
            # The answer that says why may be there all the same.
            self._stop_sending()
        elif moved.failure is not None or moved.is_at_end:
            self.reader.end()
        elif not moved.written and not moved.received:
            self._call.check()
            raise BrokenAnswer(f"the agent was silent for {silence:g} s")

    def _stop_sending(self) -> None:
        self._out, self._file, self._is_cut = b"", None, True

    def _fetch(self) -> Steps[None]:
        data = (yield from self._part()) if self._ahead is None else self._ahead
        self._ahead = (yield from self._part()) if data else b""
        if self._file_left is None:
            self._out = http.chunk(data)
        else:
            self._file_left -= len(data)
            if self._file_left < 0 or (self._file_left == 0) != (not self._ahead):
                raise InvalidArgument("the file has changed its size while it was sent")
            self._out = data
        if not data:
            self._file = None

    def _part(self) -> Steps[bytes]:
        part = yield Fetch(limits.PIECE_BYTES)
        if part is END:
            return b""
        if not isinstance(part, bytes):
            raise InvalidArgument(f"a file must give bytes, and not {type(part).__name__}")
        return part


# MARK: Connections


def connect(call: Call, *, is_fresh: bool = False, is_feed: bool = False) -> Steps[Connection]:
    """A connection to the agent.

    :raises EdgeSyncError: There is none; the class and the sentence say why.
    """
    call.check()
    result = yield Connect(min(limits.CONNECT_SECONDS, call.left), is_fresh, is_feed)
    if isinstance(result, ConnectFailure):
        raise _connect_error(result, call.session.socket_path)
    call.session.was_connected = True
    connection: Connection = result
    return connection


def _connect_error(failure: ConnectFailure, socket_path: str) -> EdgeSyncError:
    if failure.errno in (errno.ENOENT, errno.ENOTDIR):
        return NoSocket(f"there is no socket at {socket_path}")
    if failure.errno in (errno.EACCES, errno.EPERM):
        return SocketNotPermitted(f"this user may not open the socket {socket_path}")
    if failure.errno == errno.ECONNREFUSED:
        return Unreachable(f"no agent listens at the socket {socket_path}")
    return Unreachable(f"no connection to the socket {socket_path} came about: {failure.sentence}")


# MARK: The tries of one call


class Tries:
    """Counts the tries of one call, and waits between them."""

    def __init__(self, call: Call) -> None:
        self.call = call
        #: The next try needs a connection that was not used before.
        self.is_fresh = False
        self._failed = 0
        # The error of the last try, since the last success.
        self._last: Optional[EdgeSyncError] = None

    def succeeded(self) -> None:
        """There was progress: the next failure is the first one again."""
        self._failed = 0
        self._last = None

    def failed(self, error: EdgeSyncError, request: Request, exchange: Optional[Exchange]) -> Steps[None]:
        """Waits for the next try.

        :raises EdgeSyncError: The error itself, if there is none.
        """
        call, environment = self.call, self.call.environment
        error.doing = error.doing or request.doing
        was_sent = exchange is not None and exchange.was_sent
        if isinstance(error, DeadlinePassed) and self._last is not None:
            # The tries before know why there is no answer.
            if not was_sent:
                raise self._last
            error.sentence += f"; the try before it failed: {self._last.sentence}"
        self._last = error
        was_stale = isinstance(error, BrokenAnswer) and exchange is not None and exchange.was_stale
        wait: Optional[float] = 0.0
        if was_stale and not self.is_fresh and (request.is_repeatable or not was_sent):
            # The agent closes connections that were idle for long. That is no failure, and nothing was lost.
            self.is_fresh = True
        else:
            self._failed += 1
            wait = environment.policy.decide(
                error,
                tries=self._failed,
                was_sent=was_sent,
                is_repeatable=request.is_repeatable,
                was_connected=call.session.was_connected,
                elapsed=call.elapsed,
                left=call.left,
                draw=environment.draw(),
            )
        if wait is None:
            raise error
        if isinstance(request.body, FileBody):
            can_rewind = yield Rewind()
            if not can_rewind:
                raise error
        if wait > 0:
            yield Pause(wait)


def perform(call: Call, request: Request, read: Callable[[Answer], T]) -> Steps[T]:
    """Sends a request until it is answered, and reads the answer.

    :param read: Makes the result from an answer below status 400.
    """
    tries = Tries(call)
    while True:
        exchange: Optional[Exchange] = None
        try:
            connection = yield from connect(call, is_fresh=tries.is_fresh)
            exchange = Exchange(call, request, connection)
            try:
                answer = yield from exchange.read_all()
            except EdgeSyncError:
                yield Release(connection, False)
                raise
            yield Release(connection, exchange.is_whole)
            check_status(answer)
            return read(answer)
        except EdgeSyncError as error:
            yield from tries.failed(error, request, exchange)


def check_status(answer: Answer) -> None:
    """:raises Refused: The answer is a refusal."""
    if answer.status >= 400:
        raise answers.refusal(answer.status, answer.body, answer.fields.get("retry-after"))
    if not (200 <= answer.status < 300 or answer.status == 304):
        raise BadAnswer(f"the agent answered with the status {answer.status}")


def check_type(fields: Dict[str, str], expected: str) -> None:
    """:raises BadAnswer: The body is of another type."""
    said = fields.get("content-type", "").partition(";")[0].strip().lower()
    if said != expected:
        raise BadAnswer(f"the answer is of the type {said or 'nothing'}, and not {expected}")


def json_of(answer: Answer) -> Any:
    """The JSON of an answer.

    :raises BadAnswer: It is something else.
    """
    check_type(answer.fields, "application/json")
    return jsontext.decode(answer.body, "the answer")


def members_of(answer: Answer) -> answers.Members:
    """The members of an answer that is an object."""
    return answers.Members(json_of(answer))
