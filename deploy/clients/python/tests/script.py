"""Performs the effects of the core without a socket and without waiting: time passes only when the script says so."""

from __future__ import annotations

import errno
import json
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from edgesync.core.effects import (
    END,
    Connect,
    ConnectFailure,
    Connection,
    Emit,
    Fetch,
    Moved,
    Pause,
    Release,
    Rewind,
    Steps,
    Transfer,
)
from edgesync.core.exchange import Session
from edgesync.core.retry import Environment


class Asked(NamedTuple):
    """A request as it came over a scripted connection."""

    method: str
    target: str
    fields: Dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> List[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


def parse(data: bytes) -> Optional[Asked]:
    """The request in the bytes; ``None`` while it is not whole."""
    head, separator, body = data.partition(b"\r\n\r\n")
    if not separator:
        return None
    first, *rest = head.decode("ascii").split("\r\n")
    method, target, _ = first.split(" ")
    fields = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)}
    if fields.get("transfer-encoding") == "chunked":
        whole = b""
        while True:
            size, separator, body = body.partition(b"\r\n")
            count = int(size or b"-1", 16)
            if not separator or count < 0 or len(body) < count + 2:
                return None
            whole, body = whole + body[:count], body[count + 2 :]
            if count == 0:
                return Asked(method, target, fields, whole)
    if len(body) < int(fields.get("content-length", "0")):
        return None
    return Asked(method, target, fields, body)


def answer(
    status: int, body: Any = None, *, fields: Sequence[Tuple[str, str]] = (), kind: str = "application/json"
) -> bytes:
    """A whole answer of the agent."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def problem(status: int, code: str, detail: str = "no", **members: Any) -> bytes:
    """A refusal of the agent."""
    body = {"type": f"urn:edge-sync:local:{code}", "title": code, "status": status, "detail": detail, **members}
    return answer(status, body, kind="application/problem+json")


def feed(*blocks: str) -> bytes:
    """The head of a feed, and its blocks."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(chunk(block) for block in blocks)


def chunk(text: Union[str, bytes]) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return b"%x\r\n%b\r\n" % (len(data), data)


#: Behaviour of a scripted connection after a request. Bytes are read; ``CUT``: it ends; ``SILENCE``: nothing comes.
CUT = "cut"
SILENCE = "silence"
Reply = Union[bytes, str, Sequence[Union[bytes, str]]]


class ScriptedConnection(Connection):
    def __init__(self) -> None:
        self.written = b""
        self.replies: List[Union[bytes, str]] = []
        self.descriptors: List[int] = []
        self.is_open = True


class Script:
    """Answers requests in the order of a list, or by a function; keeps what was asked and how long was waited."""

    def __init__(self, *replies: Union[Reply, int], by: Optional[Callable[[Asked], Reply]] = None) -> None:
        #: An ``int`` is the errno of a connection that fails.
        self.replies = list(replies)
        self.by = by
        self.asked: List[Asked] = []
        self.pauses: List[float] = []
        self.connections: List[ScriptedConnection] = []
        self.idle: List[ScriptedConnection] = []
        self.now = 1000.0
        self.draws = 0.5
        self.keys = 0
        self.session = Session("/agent.sock", 30.0, Environment(lambda: self.now, lambda: self.draws, self._key))

    def _key(self) -> str:
        self.keys += 1
        return f"key-{self.keys}"

    @property
    def open_connections(self) -> int:
        return sum(connection.is_open for connection in self.connections) - len(self.idle)

    def run(self, steps: Steps[Any], source: Iterable[Any] = (), limit: Optional[int] = None) -> Tuple[Any, List[Any]]:
        """Performs a call to its end, or until it has emitted ``limit`` values.

        :returns: The result of the call, and what it has emitted.
        """
        items, emitted = list(source), []  # type: List[Any], List[Any]
        rest = iter(items)
        result: Any = None
        while True:
            try:
                effect = steps.send(result)
            except StopIteration as end:
                assert self.open_connections == 0, "a connection was left open"
                return end.value, emitted
            result = None
            if isinstance(effect, Emit):
                emitted.append(effect.value)
                if limit is not None and len(emitted) >= limit:
                    return None, emitted
            elif isinstance(effect, Connect):
                result = self._connect(effect)
            elif isinstance(effect, Transfer):
                result = self._transfer(effect)
            elif isinstance(effect, Release):
                assert isinstance(effect.connection, ScriptedConnection)
                effect.connection.is_open = effect.is_reusable
                if effect.is_reusable:
                    self.idle.append(effect.connection)
            elif isinstance(effect, Pause):
                self.pauses.append(effect.seconds)
                self.now += effect.seconds
            elif isinstance(effect, Fetch):
                result = next(rest, END)
            elif isinstance(effect, Rewind):
                rest = iter(items)
                result = True

    def _connect(self, effect: Connect) -> Union[Connection, ConnectFailure]:
        if self.replies and isinstance(self.replies[0], int):
            number = self.replies.pop(0)
            assert isinstance(number, int)
            return ConnectFailure(number, errno.errorcode[number])
        if self.idle and not effect.is_fresh:
            connection = self.idle.pop()
            connection.is_used = True
            return connection
        connection = ScriptedConnection()
        self.connections.append(connection)
        return connection

    def _transfer(self, effect: Transfer) -> Moved:
        connection = effect.connection
        assert isinstance(connection, ScriptedConnection) and connection.is_open
        if effect.data:
            # Not more than a socket would take, so that requests come in pieces.
            data = bytes(effect.data[:1000])
            connection.written += data
            if effect.descriptor is not None:
                connection.descriptors.append(effect.descriptor)
            asked = parse(connection.written)
            if asked is not None:
                connection.written = b""
                self.asked.append(asked)
                reply = self.by(asked) if self.by else self.replies.pop(0)
                assert not isinstance(reply, int)
                connection.replies = [reply] if isinstance(reply, (bytes, str)) else list(reply)
            return Moved(written=len(data))
        if not connection.replies or connection.replies[0] == SILENCE:
            self.now += effect.timeout
            return Moved()
        part = connection.replies.pop(0)
        if isinstance(part, str):
            connection.replies = [CUT]
            return Moved(is_at_end=True)
        return Moved(received=part)
