"""The feed of events, without a socket: the event stream of the WHATWG, and the position that it is resumed from."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional

from ..errors import BadAnswer
from . import limits


class RawEvent(NamedTuple):
    """One event as it came. ``type`` is empty for a block that carries a position and no event."""

    position: Optional[int]
    type: str
    data: bytes


class EventParser:
    """Reads an event stream however it is cut into pieces, even inside a character or a line end.

    Lines end with LF, CR or CRLF; an empty line ends an event; a line that begins with a colon is a comment. An event
    that is not complete when the stream ends does not count. One line and one event are held, of at most
    :data:`limits.EVENT_BYTES` together.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._ended_with_cr = False
        self._is_first_line = True
        self._position: Optional[int] = None
        self._type = ""
        self._data: Optional[bytearray] = None

    def feed(self, data: bytes) -> List[RawEvent]:
        """Reads the next bytes. Returns the blocks that are complete by now, in order.

        :raises BadAnswer: An event passes its limit, or a position is not a number.
        """
        events: List[RawEvent] = []
        start = 0
        if self._ended_with_cr and data:
            self._ended_with_cr = False
            if data.startswith(b"\n"):
                start = 1
        for match in _line_end.finditer(data, start):
            self._append(data[start : match.start()])
            start = match.end()
            self._end_line(events)
        if data.endswith(b"\r"):
            self._ended_with_cr = True
        self._append(data[start:])
        return events

    def _append(self, part: bytes) -> None:
        self._line += part
        if len(self._line) + len(self._data or b"") > limits.EVENT_BYTES:
            raise BadAnswer(f"an event of the feed has more than {limits.EVENT_BYTES} bytes")

    def _end_line(self, events: List[RawEvent]) -> None:
        line = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            if line.startswith(b"\xef\xbb\xbf"):
                line = line[3:]
        if not line:
            if self._data is not None or self._position is not None:
                kind = "" if self._data is None else self._type or "message"
                events.append(RawEvent(self._position, kind, bytes(self._data or b"")))
            self._position, self._type, self._data = None, "", None
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"event":
            self._type = value.decode("utf-8", "replace")
        elif name == b"id":
            self._position = _number(value)
        elif name == b"data":
            if self._data is None:
                self._data = bytearray()
            else:
                self._data += b"\n"
            self._data += value


class Feed:
    """Position of a feed over all its connections, and the meaning of each of its blocks."""

    def __init__(self, position: Optional[int]) -> None:
        #: The last position that was told or passed on; ``None`` until the first connection told one.
        self.position = position
        #: The present connection brought news.
        self.has_news = False

    def begin(self) -> None:
        """A new connection is read."""
        self.has_news = False

    def accept(self, event: RawEvent) -> Optional[RawEvent]:
        """Takes in one block. Returns what the reader of the feed must see, with its position.

        - The first position of a feed that began without one becomes a ``start``: from there on nothing is missed.
        - ``reset`` says that what lies before its position is not kept any more.
        - An event at or before the position was passed on already, and is dropped.
        - ``overflow`` says that the reader was too slow; the feed ends, and resumes after what it got.
        """
        if not event.type:
            if self.position is not None or event.position is None:
                return None
            self.position = event.position
            return RawEvent(event.position, "start", b"{}")
        if event.type == "overflow":
            return None
        if event.position is None:
            raise BadAnswer(f"an event of the type {event.type} has no position")
        if event.type != "reset":
            if self.position is not None and event.position <= self.position:
                return None
            self.has_news = True
        self.position = event.position
        return event


_line_end = re.compile(rb"\r\n|\n|\r")
_decimal = re.compile(rb"[0-9]{1,19}\Z")


def _number(text: bytes) -> int:
    if not _decimal.match(text) or int(text) >= 1 << 63:
        raise BadAnswer("the position of an event is not a number")
    return int(text)
