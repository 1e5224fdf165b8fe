"""Conditions for :meth:`edgesync.Client.records`.

>>> field("status").eq("open") & (field("due").lt("2026-12-01") | field("due").exists(False))

A field inside an object is named with dots: ``field("site.name")``.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Union


class Condition:
    """A condition for records. ``a & b`` requires both conditions, ``a | b`` at least one of them."""

    def __init__(self, tree: Dict[str, Any]) -> None:
        #: The condition in the form that the agent reads.
        self.tree = tree

    def __and__(self, other: "Condition") -> "Condition":
        return all_of(self, other)

    def __or__(self, other: "Condition") -> "Condition":
        return any_of(self, other)

    def __repr__(self) -> str:
        return f"Condition({self.tree!r})"


class FieldTest:
    """Makes conditions about one field; see :func:`field`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def eq(self, value: Any) -> Condition:
        """The field has this value."""
        return self._test("eq", value)

    def ne(self, value: Any) -> Condition:
        """The field has another value."""
        return self._test("ne", value)

    def lt(self, value: Any) -> Condition:
        """The field is less than this number or text."""
        return self._test("lt", value)

    def le(self, value: Any) -> Condition:
        """The field is this number or text, or less."""
        return self._test("le", value)

    def gt(self, value: Any) -> Condition:
        """The field is greater than this number or text."""
        return self._test("gt", value)

    def ge(self, value: Any) -> Condition:
        """The field is this number or text, or greater."""
        return self._test("ge", value)

    def one_of(self, values: Sequence[Any]) -> Condition:
        """The field has one of these values, at most 100."""
        return self._test("in", list(values))

    def prefix(self, text: str) -> Condition:
        """The field is a text that begins like this."""
        return self._test("prefix", text)

    def exists(self, wanted: bool = True) -> Condition:
        """The record has the field, or with ``False`` does not have it."""
        return self._test("exists", wanted)

    def _test(self, operator: str, value: Any) -> Condition:
        return Condition({"field": self._name, "op": operator, "value": value})


def field(name: str) -> FieldTest:
    """The field of a record's document that a condition is about."""
    return FieldTest(name)


def all_of(*conditions: Condition) -> Condition:
    """Every one of the conditions holds."""
    return _join("and", conditions)


def any_of(*conditions: Condition) -> Condition:
    """At least one of the conditions holds."""
    return _join("or", conditions)


def _join(word: str, conditions: Sequence[Condition]) -> Condition:
    parts: List[Union[Dict[str, Any], Any]] = []
    for condition in conditions:
        # The agent limits the levels of a condition, so `a & b & c` becomes one list and not two.
        inner = condition.tree.get(word)
        parts.extend(inner if isinstance(inner, list) else [condition.tree])
    return Condition({word: parts})
