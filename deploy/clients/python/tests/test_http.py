from __future__ import annotations

import unittest
from typing import Optional

from edgesync.core import http, limits
from edgesync.errors import BadAnswer, BrokenAnswer, InvalidArgument

WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhello"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE


def read(data: bytes, piece: int, is_at_end: bool = True) -> http.AnswerReader:
    reader = http.AnswerReader()
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece])
    if is_at_end:
        reader.end()
    return reader


class AnswerReaderTests(unittest.TestCase):
    def test_an_answer_is_the_same_however_it_is_cut(self) -> None:
        for data in [WHOLE, CHUNKED, UNTIL_CLOSE, INTERIM]:
            for piece in [1, 2, 3, 7, len(data)]:
                with self.subTest(data=data[:20], piece=piece):
                    reader = read(data, piece)
                    self.assertEqual((reader.status, reader.take()), (200, b"hello"))

    def test_a_cut_answer_is_told_at_every_byte(self) -> None:
        for data in [WHOLE, CHUNKED]:
            for end in range(len(data)):
                with self.subTest(end=end), self.assertRaises(BrokenAnswer):
                    read(data[:end], max(1, end))

    def test_an_answer_without_a_body_ends_with_its_head(self) -> None:
        for status in [204, 304]:
            reader = read(b"HTTP/1.1 %d X\r\nContent-Length: 9\r\n\r\n" % status, 100, is_at_end=False)
            self.assertTrue(reader.is_complete)

    def test_whether_the_connection_is_kept(self) -> None:
        self.assertTrue(read(WHOLE, 100).keeps_connection)
        self.assertFalse(read(WHOLE.replace(b"Content-Type", b"Connection: close\r\nX"), 100).keeps_connection)
        self.assertFalse(read(UNTIL_CLOSE, 100).keeps_connection)

    def test_what_is_no_answer_is_refused(self) -> None:
        head = b"HTTP/1.1 200 OK\r\n"
        for data in [
            b"GARBAGE\r\n",
            b"HTTP/2 200 OK\r\n\r\n",
            b"HTTP/1.1 99 X\r\n\r\n",
            b"HTTP/1.1 200\nX: y\n\n" + b"x" * 20_000,
            b"HTTP/1.1 101 Switching\r\n\r\n",
            head + b"No colon\r\n\r\n",
            head + b" Folded: x\r\n\r\n",
            head + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            head + b"Content-Length: -1\r\n\r\n",
            head + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            head + b"Transfer-Encoding: gzip\r\n\r\n",
            head + b"X: \x00\r\n\r\n",
            WHOLE + b"more",
            CHUNKED.replace(b"3;x", b"z;x"),
            CHUNKED.replace(b"hel\r\n", b"help\r"),
            head + b"X: " + b"y" * limits.HEAD_BYTES + b"\r\n\r\n",
            CHUNKED.replace(b"3;x=y", b"3;" + b"x" * 300),
            b"HTTP/1.1 103 X\r\n\r\n" * 9,
        ]:
            with self.subTest(data[:60]), self.assertRaises(BadAnswer):
                read(data, 4096)

    def test_a_long_body_is_not_held(self) -> None:
        reader = http.AnswerReader()
        reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        for _ in range(1000):
            reader.feed(b"x" * 65536)
            self.assertEqual(len(reader.take()), 65536)
        self.assertLess(len(reader._buffer) + len(reader._body), 65537)


class RequestTests(unittest.TestCase):
    def head(self, length: Optional[int], method: str = "POST") -> bytes:
        return http.head(method, "/v1/x", {"A": "b"}, length)

    def test_a_head_says_how_long_the_body_is(self) -> None:
        self.assertEqual(self.head(3), b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nA: b\r\nContent-Length: 3\r\n\r\n")
        self.assertIn(b"\r\nTransfer-Encoding: chunked\r\n", self.head(None))
        self.assertIn(b"\r\nContent-Length: 0\r\n", self.head(0))
        self.assertNotIn(b"Content-Length", self.head(0, "GET"))

    def test_a_field_cannot_bring_another_one(self) -> None:
        for value in ["a\r\nB: c", "", " a", "a\n", "é", "a\0"]:
            with self.subTest(value), self.assertRaises(InvalidArgument):
                http.head("GET", "/", {"Idempotency-Key": value}, 0)

    def test_chunks(self) -> None:
        self.assertEqual(http.chunk(b"x" * 17), b"11\r\n" + b"x" * 17 + b"\r\n")
        self.assertEqual(http.chunk(b""), b"0\r\n\r\n")


if __name__ == "__main__":
    unittest.main()
