"""Reads the bytes of a file: waits until it has come from the hub, goes on where a connection broke, compares the digest."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any, Mapping, NamedTuple, Optional, Union

from ..errors import BadAnswer, BlobFetching, DigestMismatch, EdgeSyncError, InvalidArgument
from ..values import Blob, Placeholder
from . import limits, requests
from .effects import Emit, Pause, Release, Steps
from .exchange import Call, Exchange, Session, Tries, check_status, connect

#: A file as an app names it: its id (``b-7``), its digest (``sha256:9b1c…``), the placeholder in a record, or what the
#: agent said of it.
BlobName = Union[str, Placeholder, Blob, Mapping[str, Any]]

_digest = re.compile(r"sha256:[0-9a-f]{64}\Z")


class Named(NamedTuple):
    """A file as a request names it."""

    #: Its id or its digest.
    text: str
    #: The digest that its bytes must have, as ``Repr-Digest`` says it; ``None`` if the name does not tell.
    digest: Optional[str]


def named(name: BlobName) -> Named:
    """:raises InvalidArgument: It names no file."""
    if isinstance(name, (Placeholder, Blob)):
        text: Any = name.digest
    elif isinstance(name, Mapping):
        text = name.get("$blob")
        if not isinstance(text, str):
            raise InvalidArgument("a placeholder has the member $blob with a digest, and this one has none")
    else:
        text = name
    if not isinstance(text, str) or not text:
        raise InvalidArgument(f"{text!r} names no file: expected an id, a digest or a placeholder")
    if not text.startswith("sha256:"):
        return Named(text, None)
    if not _digest.match(text):
        raise InvalidArgument(f"{text!r} is no digest: expected sha256: and 64 of the characters 0-9 a-f")
    return Named(text, _field(bytes.fromhex(text[7:])))


def _field(digest: bytes) -> str:
    return "sha-256=:" + base64.b64encode(digest).decode("ascii") + ":"


class _Wait:
    """The time that a call waits for a file, in slices: each is one request that the agent answers at its end."""

    def __init__(self, seconds: float) -> None:
        if not 0 <= seconds < float("inf"):
            raise InvalidArgument(f"a wait is a number of seconds from 0, and not {seconds!r}", "wait")
        self._left = seconds

    @property
    def slice(self) -> int:
        """Seconds that the agent shall wait before its next answer; 0: it shall answer at once."""
        return int(min(self._left, limits.BLOB_WAIT_SECONDS))

    def passed(self, seconds: float) -> None:
        self._left = max(0.0, self._left - seconds)

    def again(self, spent: float, asked: int) -> Optional[float]:
        """Decides what follows the answer that the file is not here yet.

        :param spent: Seconds that the answer took.
        :param asked: Seconds that it should have taken at most.
        :returns: Seconds to pause before the next request; ``None``: the time is over.
        """
        self.passed(spent)
        if self._left <= 0:
            return None
        # The agent waits whole seconds. One that answers too early is not asked all the time.
        pause = 0.0 if 0 < asked <= spent and self._left >= 1 else min(1.0, self._left)
        self._left -= pause
        return pause


def read_blob(session: Session, name: BlobName, wait: float, deadline: Optional[float]) -> Steps[None]:
    """Emits the bytes of a file in pieces, and goes on where a connection broke.

    The deadline holds for each piece; before the first one, ``wait`` comes on top of it.

    :raises BlobFetching: The file has not come within ``wait``.
    :raises DigestMismatch: The bytes are not those of the digest. It is raised behind the last piece.
    """
    file, waiting = named(name), _Wait(wait)
    digest = file.digest
    offset = 0
    content = hashlib.sha256()
    call = session.call(deadline)
    patience = call.deadline
    tries = Tries(call)
    while True:
        asked = waiting.slice
        request = requests.blob_content(file.text, offset, asked)
        call.deadline = patience + asked
        began = call.environment.now()
        exchange: Optional[Exchange] = None
        before, is_open = offset, False
        try:
            connection = yield from connect(call, is_fresh=tries.is_fresh)
            exchange = Exchange(call, request, connection)
            try:
                yield from exchange.read_head()
                digest = yield from _check_content(exchange, offset, digest)
                is_open = True
                _restart(call, patience)
                while True:
                    piece = yield from exchange.read_piece()
                    if not piece:
                        break
                    content.update(piece)
                    offset += len(piece)
                    yield Emit(piece)
                    # The caller may take any time for a piece.
                    _restart(call, patience)
            except EdgeSyncError as error:
                # A refusal that was read to its end leaves the connection free.
                yield Release(connection, isinstance(error, BlobFetching) and exchange.is_whole)
                raise
            yield Release(connection, exchange.is_whole)
            break
        except BlobFetching as error:
            pause = waiting.again(call.environment.now() - began, asked)
            if pause is None:
                error.doing = error.doing or request.doing
                raise
            tries.succeeded()
            _restart(call, patience)
            if pause > 0:
                yield Pause(pause)
        except EdgeSyncError as error:
            if not is_open:
                spent = call.environment.now() - began
                waiting.passed(spent)
                # This time belongs to the wait, and not to the deadline.
                call.deadline, call.began = patience, call.began + min(spent, asked)
            if offset > before:
                tries.succeeded()
                _restart(call, patience)
            yield from tries.failed(error, request, exchange)
    if digest != _field(content.digest()):
        raise DigestMismatch(f"the bytes of the file {file.text} are not those that its digest names")


def _restart(call: Call, patience: float) -> None:
    """There was progress: the time of the call begins again."""
    call.deadline, call.began = patience, call.environment.now()


def _check_content(exchange: Exchange, offset: int, digest: Optional[str]) -> Steps[str]:
    """Reads the head of the answer.

    :param digest: The digest that the whole file must have, if it is known.
    :returns: The digest of the whole file.
    """
    reader = exchange.reader
    if reader.status == 416 and offset:
        raise BadAnswer("the file has become shorter while it was read")
    if reader.status not in (200, 206):
        check_status((yield from exchange.read_all()))
        raise BadAnswer(f"the agent answered with the status {reader.status}")
    begins_at = 0
    if reader.status == 206:
        match = re.match(r"bytes ([0-9]{1,18})-", reader.fields.get("content-range", ""))
        begins_at = -1 if match is None else int(match[1])
    if begins_at != offset:
        raise BadAnswer("the agent sent another part of the file than it was asked for")
    said = reader.fields.get("repr-digest")
    if said is None:
        raise BadAnswer("the agent does not say which digest the file has")
    if digest is not None and said != digest:
        raise BadAnswer(
            "the file has changed while it was read" if offset else "the agent sent another file than it was asked for"
        )
    return said
