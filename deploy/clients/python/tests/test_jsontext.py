from __future__ import annotations

import enum
import json
import pickle
import unittest
from decimal import Decimal
from typing import Any

from edgesync.core import jsontext
from edgesync.core.jsontext import ExactFloat
from edgesync.errors import BadAnswer, InvalidArgument


class JSONTests(unittest.TestCase):
    def test_numbers_and_texts_come_back_as_they_were_written(self) -> None:
        for text in [
            "9223372036854775807",
            "-9223372036854775808",
            "18446744073709551615",
            "9007199254740993",
            "1.10",
            "-0",
            "0",
            "1e400",
            "-1E-400",
            "0.1234567890123456789",
            "1E5",
            "null",
            "true",
            '"\\u0001"',
            '"e\u0301 \u00e9"',
            "[]",
            "{}",
            '{"a":[1,{"b":[]}],"":"x"}',
            "1" * 400,
            "1" * 5000,
        ]:
            with self.subTest(text[:40]):
                self.assertEqual(jsontext.encode(jsontext.decode(text.encode(), "it")), text.encode())

    def test_whole_numbers_are_exact(self) -> None:
        self.assertEqual(jsontext.decode(b"[9223372036854775807,-9223372036854775808]", "it"), [2**63 - 1, -(2**63)])

    def test_other_numbers_are_floats_that_remember_their_text(self) -> None:
        number = jsontext.decode(b"1.10", "it")
        self.assertIsInstance(number, float)
        self.assertEqual(number, 1.1)
        self.assertEqual(number.source, "1.10")
        self.assertEqual(pickle.loads(pickle.dumps(number)).source, "1.10")

    def test_a_number_beyond_a_float_is_a_decimal(self) -> None:
        self.assertEqual(jsontext.decode(b"1e400", "it"), Decimal("1e400"))

    def test_what_is_not_json_is_refused(self) -> None:
        for data in [
            b"",
            b"{",
            b"{}x",
            b"NaN",
            b"Infinity",
            b"-Infinity",
            b"01",
            b"1.",
            b"'a'",
            b'{"a":1,"a":2}',
            b'"\x01"',
            b"\xff",
            b'"\\ud800"',
            b'{"\\udc00":1}',
            b"[1,]",
            b"\xef\xbb\xbf1",
            b"[" * 100_000,
        ]:
            with self.subTest(data[:20]), self.assertRaises(BadAnswer):
                jsontext.decode(data, "it")

    def test_an_escaped_pair_is_one_character(self) -> None:
        self.assertEqual(jsontext.decode(b'"\\ud83d\\ude00"', "it"), "\U0001f600")

    def test_what_has_no_json_form_is_named(self) -> None:
        deep: Any = 1
        for _ in range(100):
            deep = [deep]
        circle: Any = []
        circle.append(circle)
        for value, field in [
            ({"a": float("nan")}, "/a"),
            ([1, float("inf")], "/1"),
            ({"a/b": {"c~d": {1}}}, "/a~1b/c~0d"),
            ({1: 2}, ""),
            ({"a": {"b": b"bytes"}}, "/a/b"),
            (Decimal("NaN"), ""),
            ("\ud800", ""),
            (10**10000, ""),
        ]:
            with self.subTest(field=field), self.assertRaises(InvalidArgument) as caught:
                jsontext.encode(value)
            self.assertEqual(caught.exception.field, field)
        for value in [deep, circle]:
            with self.assertRaises(InvalidArgument):
                jsontext.encode(value)

    def test_members_keep_their_order_and_subclasses_their_value(self) -> None:
        class Colour(str, enum.Enum):
            RED = "red"

        class Level(enum.IntEnum):
            HIGH = 3

        value = {"z": Colour.RED, "a": Level.HIGH, "d": Decimal("1.50"), "t": (1, True, None), "e": ExactFloat("2.0")}
        self.assertEqual(jsontext.encode(value), b'{"z":"red","a":3,"d":1.50,"t":[1,true,null],"e":2.0}')

    def test_it_agrees_with_the_standard_library(self) -> None:
        value = {"a": [1, -2.5, 'x\n"\\\x7f\u2028\U0010ffff', None, False, {"b": {}}], "c": 1e-7}
        self.assertEqual(json.loads(jsontext.encode(value)), value)


if __name__ == "__main__":
    unittest.main()
