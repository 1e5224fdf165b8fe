from __future__ import annotations

import unittest
from typing import List, Optional

from edgesync.core import limits
from edgesync.core.events import EventParser, Feed, RawEvent
from edgesync.errors import BadAnswer

STREAM = (
    b"id: 7\n\n"
    b":\n\n"
    b'id: 8\nevent: record\ndata: {"a":\ndata: 1}\n\n'
    b"id:9\r\nevent:mutation\r\ndata:{}\r\n\r\n"
    b"event: overflow\rdata: {}\r\r"
)
BLOCKS = [
    RawEvent(7, "", b""),
    RawEvent(8, "record", b'{"a":\n1}'),
    RawEvent(9, "mutation", b"{}"),
    RawEvent(None, "overflow", b"{}"),
]


def parse(data: bytes, piece: int) -> List[RawEvent]:
    parser = EventParser()
    events: List[RawEvent] = []
    for start in range(0, len(data), piece):
        events += parser.feed(data[start : start + piece])
    return events


class EventParserTests(unittest.TestCase):
    def test_a_stream_is_the_same_however_it_is_cut(self) -> None:
        for piece in [1, 2, 3, 5, 11, len(STREAM)]:
            with self.subTest(piece):
                self.assertEqual(parse(STREAM, piece), BLOCKS)

    def test_an_event_that_is_not_complete_does_not_count(self) -> None:
        self.assertEqual(parse(b"id: 1\nevent: record\ndata: {}\n", 4), [])

    def test_a_byte_order_mark_is_passed_over(self) -> None:
        self.assertEqual(parse(b"\xef\xbb\xbfid: 1\n\n", 1), [RawEvent(1, "", b"")])

    def test_limits(self) -> None:
        for data in [b"x" * (limits.EVENT_BYTES + 1), b"data: " + b"x" * 70_000 + b"\n"]:
            parser = EventParser()
            with self.assertRaises(BadAnswer):
                for _ in range(20):
                    parser.feed(data)

    def test_a_position_is_a_number_of_63_bits(self) -> None:
        for text in [b"x", b"-1", b"9223372036854775808", b"99999999999999999999", b""]:
            with self.subTest(text), self.assertRaises(BadAnswer):
                parse(b"id: " + text + b"\n\n", 100)

    def test_months_of_events_cost_no_memory(self) -> None:
        parser = EventParser()
        for number in range(20_000):
            self.assertEqual(len(parser.feed(b'id: %d\nevent: record\ndata: {"a":1}\n\n' % number)), 1)
        self.assertEqual((parser._line, parser._data), (bytearray(), None))


class FeedTests(unittest.TestCase):
    def accept(self, feed: Feed, *blocks: RawEvent) -> List[Optional[RawEvent]]:
        return [feed.accept(block) for block in blocks]

    def test_a_feed_without_a_position_begins_with_a_start(self) -> None:
        feed = Feed(None)
        self.assertEqual(feed.accept(RawEvent(7, "", b"")), RawEvent(7, "start", b"{}"))
        self.assertEqual(feed.position, 7)

    def test_the_start_comes_once(self) -> None:
        feed = Feed(None)
        self.accept(feed, RawEvent(7, "", b""))
        feed.begin()
        self.assertIsNone(feed.accept(RawEvent(9, "", b"")))
        self.assertEqual(feed.position, 7)

    def test_what_was_passed_on_does_not_come_again(self) -> None:
        feed = Feed(8)
        event = RawEvent(9, "record", b"{}")
        self.assertEqual(self.accept(feed, RawEvent(8, "record", b"{}"), event, event), [None, event, None])
        self.assertEqual((feed.position, feed.has_news), (9, True))

    def test_a_reset_moves_the_position_in_either_direction(self) -> None:
        for position in [3, 300]:
            feed = Feed(30)
            self.assertEqual(feed.accept(RawEvent(position, "reset", b"{}")), RawEvent(position, "reset", b"{}"))
            self.assertEqual((feed.position, feed.has_news), (position, False))

    def test_an_overflow_is_no_news_and_moves_nothing(self) -> None:
        feed = Feed(30)
        self.assertIsNone(feed.accept(RawEvent(None, "overflow", b"{}")))
        self.assertEqual(feed.position, 30)

    def test_an_event_without_a_position_is_refused(self) -> None:
        with self.assertRaises(BadAnswer):
            Feed(1).accept(RawEvent(None, "record", b"{}"))


if __name__ == "__main__":
    unittest.main()
