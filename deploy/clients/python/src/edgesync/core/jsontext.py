"""JSON as the agent reads and writes it: strict, and without a change to any number or text.

The standard library's reader accepts ``NaN``, keeps the last of two members with one name, and turns ``1.10`` into
``1.1``. This module refuses the first two. It keeps the third: a number that is not whole becomes an
:class:`ExactFloat`, a float that remembers how it was written, and it is written in the same way again.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Dict, List, Mapping, NoReturn, Sequence, Tuple, Type, Union

from ..errors import BadAnswer, InvalidArgument
from . import limits


class ExactFloat(float):
    """A float that keeps the text it was read from: ``ExactFloat("1.10")`` equals 1.1 and is written as ``1.10``."""

    source: str

    def __new__(cls, source: str) -> "ExactFloat":
        self = super().__new__(cls, source)
        self.source = source
        return self

    def __getnewargs__(self) -> Tuple[str]:  # type: ignore[override]
        return (self.source,)


class ExactDecimal(Decimal):
    """A number beyond the range of a float, or of very many digits, that keeps the text it was read from."""

    source: str

    def __new__(cls, source: str) -> "ExactDecimal":
        self = super().__new__(cls, source)
        self.source = source
        return self

    def __reduce__(self) -> Tuple[Type["ExactDecimal"], Tuple[str]]:
        return (ExactDecimal, (self.source,))


def decode(data: Union[bytes, bytearray], what: str) -> Any:
    """Reads one JSON text.

    Whole numbers become ``int`` and stay exact at any size. Other numbers become :class:`ExactFloat`, or
    :class:`ExactDecimal` where they are beyond the range of a float.

    :param what: Name of the text, for the sentence of the error: ``"the answer"``.
    :raises BadAnswer: The text is not JSON to the letter of RFC 8259, or an object names a member twice.
    """
    try:
        text = data.decode("utf-8")
        value = _decoder.decode(text)
        if _escaped_surrogate.search(text):
            _refuse_lone_surrogates(value)
        return value
    except UnicodeDecodeError as error:
        raise BadAnswer(f"{what} is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise BadAnswer(f"{what} is nested too deeply") from None
    except ValueError as error:
        raise BadAnswer(f"{what} is not JSON: {error}") from None


def encode(value: Any, field: str = "") -> bytes:
    """Writes a value as JSON without white space, members in the order of the dictionary.

    :param field: JSON pointer to the value, for the error.
    :raises InvalidArgument: The value, or a part of it that the error names, has no JSON form: a float that is not
        finite, text with half a surrogate pair, a key that is not text, an object of another type, or too many levels.
    """
    parts: List[str] = []
    try:
        _write(value, parts, 0)
    except _Unfit as error:
        raise InvalidArgument(error.reason, field + error.pointer()) from None
    text = "".join(parts)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"text holds the code point U+{ord(text[error.start]):04X}, which is half of a surrogate pair", field
        ) from None


# MARK: Reading


def _unique(members: List[Tuple[str, Any]]) -> Dict[str, Any]:
    result = dict(members)
    if len(result) != len(members):
        seen = set()
        for name, _ in members:
            if name in seen:
                raise ValueError(f"the member {name!r} is there twice")
            seen.add(name)
    return result


def _whole(source: str) -> Union[int, float, Decimal]:
    if source == "-0":
        return ExactFloat(source)
    return int(source) if len(source) <= limits.INTEGER_DIGITS else ExactDecimal(source)


def _fraction(source: str) -> Union[float, Decimal]:
    value = ExactFloat(source)
    return value if math.isfinite(value) else ExactDecimal(source)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_whole, parse_float=_fraction, parse_constant=_constant, strict=True
)
_escaped_surrogate = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_lone_surrogates(value: Any) -> None:
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("a string holds half of a surrogate pair")
    elif isinstance(value, list):
        for element in value:
            _refuse_lone_surrogates(element)
    elif isinstance(value, dict):
        for name, element in value.items():
            _refuse_lone_surrogates(name)
            _refuse_lone_surrogates(element)


# MARK: Writing

# The writer of the standard library for one string: quotes, and escapes only where RFC 8259 asks for them.
_quoted = json.JSONEncoder(ensure_ascii=False).encode


class _Unfit(Exception):
    """A part of a value that has no JSON form.

    The path is put together on the way out, so that it costs nothing where there is no error.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path: List[Union[str, int]] = []

    def pointer(self) -> str:
        names = (str(part).replace("~", "~0").replace("/", "~1") for part in reversed(self.path))
        return "".join("/" + name for name in names)


def _write(value: Any, parts: List[str], depth: int) -> None:
    if isinstance(value, str):
        parts.append(_quoted(value))
    elif value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, int):
        parts.append(_digits(value))
    elif isinstance(value, (ExactFloat, ExactDecimal)):
        parts.append(value.source)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _Unfit(f"{value!r} has no JSON form: a number must be finite")
        parts.append(float.__repr__(value))
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise _Unfit(f"{value} has no JSON form: a number must be finite")
        parts.append(str(value))
    elif isinstance(value, (list, tuple)):
        _write_list(value, parts, depth)
    elif isinstance(value, dict):
        _write_object(value, parts, depth)
    else:
        raise _Unfit(f"a value of the type {type(value).__name__} has no JSON form")


def _write_list(values: Sequence[Any], parts: List[str], depth: int) -> None:
    _check_depth(depth)
    index = 0
    try:
        for index, element in enumerate(values):
            parts.append("," if index else "[")
            _write(element, parts, depth + 1)
    except _Unfit as error:
        error.path.append(index)
        raise
    parts.append("]" if values else "[]")


def _write_object(members: Mapping[Any, Any], parts: List[str], depth: int) -> None:
    _check_depth(depth)
    separator = "{"
    for name, element in members.items():
        if not isinstance(name, str):
            raise _Unfit(f"the key {name!r} is not text")
        parts.append(separator)
        parts.append(_quoted(name))
        parts.append(":")
        separator = ","
        try:
            _write(element, parts, depth + 1)
        except _Unfit as error:
            error.path.append(name)
            raise
    parts.append("}" if members else "{}")


def _digits(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError:
        # Python refuses to write whole numbers of more than some thousand digits (sys.set_int_max_str_digits).
        raise _Unfit("the whole number has too many digits") from None


def _check_depth(depth: int) -> None:
    if depth >= limits.DEPTH:
        raise _Unfit(f"the value is nested deeper than {limits.DEPTH} levels")
