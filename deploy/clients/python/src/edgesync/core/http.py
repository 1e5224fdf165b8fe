"""HTTP/1.1 without a socket: bytes in, answers out, within limits.

Only what the agent uses is understood (RFC 9112): bodies with a length, chunked bodies, and bodies that end with the
connection. Whatever else comes is a :class:`~edgesync.errors.BadAnswer`, and an answer that ends early is a
:class:`~edgesync.errors.BrokenAnswer`.
"""

from __future__ import annotations

import enum
import re
from typing import Dict, List, Mapping, Optional, Tuple

from ..errors import BadAnswer, BrokenAnswer, InvalidArgument
from . import limits


def head(method: str, target: str, fields: Mapping[str, str], length: Optional[int]) -> bytes:
    """The head of a request.

    :param length: Bytes of the body; ``None`` announces a chunked one.
    :raises InvalidArgument: A field holds a character that would end it, or one that is not ASCII.
    """
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    for name, value in fields.items():
        if not _field_value.match(value):
            raise InvalidArgument(f"{name} must be visible ASCII, and not empty: {value!r}")
        lines.append(f"{name}: {value}")
    if length is None:
        lines.append("Transfer-Encoding: chunked")
    elif length > 0 or method not in ("GET", "DELETE"):
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; without data, the chunk that ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b"0\r\n\r\n"


class _Part(enum.Enum):
    HEAD = enum.auto()
    COUNTED = enum.auto()
    CHUNK_SIZE = enum.auto()
    CHUNK_DATA = enum.auto()
    CHUNK_END = enum.auto()
    TRAILER = enum.auto()
    UNTIL_CLOSE = enum.auto()
    COMPLETE = enum.auto()


class AnswerReader:
    """Reads one answer however it is cut into pieces.

    Bytes go in by :meth:`feed`; the body comes out by :meth:`take`. At most one head, one chunk
    line and one piece of body are held, so an answer of any length costs the same memory.
    """

    def __init__(self) -> None:
        #: Status of the answer; 0 until its head is there.
        self.status = 0
        #: Fields of the head, names in lower case.
        self.fields: Dict[str, str] = {}
        #: The connection can carry another request after this answer.
        self.keeps_connection = False
        #: At least one byte came.
        self.has_begun = False
        self._part = _Part.HEAD
        self._buffer = bytearray()
        self._body = bytearray()
        # Bytes that are still to come of the body, or of the present chunk.
        self._left = 0
        self._interim = 0

    @property
    def is_complete(self) -> bool:
        """The answer has come to its end."""
        return self._part is _Part.COMPLETE

    def feed(self, data: bytes) -> None:
        """Reads the next bytes of the connection.

        :raises BadAnswer: They are not HTTP as the agent speaks it, or pass a limit.
        """
        if not data:
            return
        self.has_begun = True
        self._buffer += data
        while self._step():
            pass

    def end(self) -> None:
        """The connection has ended.

        :raises BrokenAnswer: The answer was not complete.
        """
        if self._part is _Part.UNTIL_CLOSE:
            self._part = _Part.COMPLETE
        elif self._part is not _Part.COMPLETE:
            what = "within its answer" if self.has_begun else "before it answered"
            raise BrokenAnswer(f"the agent closed the connection {what}")

    def take(self) -> bytes:
        """The bytes of the body that came since the last call."""
        taken = bytes(self._body)
        self._body.clear()
        return taken

    # MARK: Steps

    def _step(self) -> bool:
        """Reads one part. Returns whether there may be another one to read."""
        if self._part is _Part.HEAD:
            return self._read_head()
        if self._part is _Part.COUNTED or self._part is _Part.CHUNK_DATA:
            return self._read_counted()
        if self._part is _Part.CHUNK_SIZE:
            return self._read_chunk_size()
        if self._part is _Part.CHUNK_END:
            return self._read_chunk_end()
        if self._part is _Part.TRAILER:
            return self._read_trailer()
        if self._part is _Part.UNTIL_CLOSE:
            self._move(len(self._buffer))
            return False
        if self._buffer:
            raise BadAnswer("bytes came after the end of the answer")
        return False

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or end > limits.HEAD_BYTES:
            if len(self._buffer) > limits.HEAD_BYTES:
                raise BadAnswer(f"the head of the answer has more than {limits.HEAD_BYTES} bytes")
            if not b"HTTP/1.".startswith(self._buffer[:7]) and not self._buffer.startswith(b"HTTP/1."):
                raise BadAnswer("the answer is not HTTP/1.1")
            return False
        lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        status, is_http11 = _status(lines[0])
        fields = _fields(lines[1:])
        if 100 <= status < 200:
            self._interim += 1
            if status == 101 or self._interim > limits.INTERIM_ANSWERS:
                raise BadAnswer(f"the agent answered with the interim status {status}")
            return True
        self.status, self.fields = status, fields
        connection = fields.get("connection", "").lower()
        self.keeps_connection = connection != "close" if is_http11 else connection == "keep-alive"
        self._part, self._left = self._framing(status, fields)
        if self._part is _Part.UNTIL_CLOSE:
            self.keeps_connection = False
        return True

    @staticmethod
    def _framing(status: int, fields: Mapping[str, str]) -> Tuple[_Part, int]:
        coding, length = fields.get("transfer-encoding"), fields.get("content-length")
        if status in (204, 304):
            return _Part.COMPLETE, 0
        if coding is not None:
            if coding.lower() != "chunked" or length is not None:
                raise BadAnswer("the length of the answer is not given in one way")
            return _Part.CHUNK_SIZE, 0
        if length is None:
            return _Part.UNTIL_CLOSE, 0
        if not _decimal.match(length):
            raise BadAnswer("the length of the answer is not a number")
        left = int(length)
        return (_Part.COUNTED, left) if left else (_Part.COMPLETE, 0)

    def _read_counted(self) -> bool:
        count = min(self._left, len(self._buffer))
        self._move(count)
        self._left -= count
        if self._left:
            return False
        self._part = _Part.COMPLETE if self._part is _Part.COUNTED else _Part.CHUNK_END
        return True

    def _read_chunk_size(self) -> bool:
        line = self._line(limits.CHUNK_LINE_BYTES)
        if line is None:
            return False
        size = line.split(b";")[0].strip(b" \t")
        if not _hexadecimal.match(size):
            raise BadAnswer("the size of a piece of the answer is not a number")
        self._left = int(size, 16)
        self._part = _Part.CHUNK_DATA if self._left else _Part.TRAILER
        return True

    def _read_chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if not self._buffer.startswith(b"\r\n"):
            raise BadAnswer("a piece of the answer is longer than it says")
        del self._buffer[:2]
        self._part = _Part.CHUNK_SIZE
        return True

    def _read_trailer(self) -> bool:
        line = self._line(limits.HEAD_BYTES)
        if line is None:
            return False
        if not line:
            self._part = _Part.COMPLETE
        return True

    def _line(self, bytes_max: int) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n")
        if end < 0 or end > bytes_max:
            if len(self._buffer) > bytes_max:
                raise BadAnswer(f"a line of the answer has more than {bytes_max} bytes")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _move(self, count: int) -> None:
        self._body += self._buffer[:count]
        del self._buffer[:count]


# MARK: The head

_status_line = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [\x20-\x7e\x80-\xff]*)?\Z")
_field_line = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*\Z")
_field_value = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")
_decimal = re.compile(r"[0-9]{1,18}\Z")
_hexadecimal = re.compile(rb"[0-9A-Fa-f]{1,15}\Z")
# Fields by which an answer is framed or read: two of them contradict each other.
_single = {"content-length", "content-type", "transfer-encoding", "content-range", "etag", "repr-digest"}


def _status(line: bytes) -> Tuple[int, bool]:
    match = _status_line.match(line)
    if match is None:
        raise BadAnswer("the answer is not HTTP/1.1")
    return int(match[2]), match[1] == b"1"


def _fields(lines: List[bytes]) -> Dict[str, str]:
    fields: Dict[str, str] = {}
    for line in lines:
        match = _field_line.match(line)
        if match is None:
            raise BadAnswer("the head of the answer has a line that is not a field")
        name, value = match[1].decode("ascii").lower(), match[2].decode("latin-1")
        if name in fields and name in _single:
            raise BadAnswer(f"the head of the answer has the field {name} twice")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields
