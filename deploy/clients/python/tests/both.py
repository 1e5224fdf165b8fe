"""Lets one test speak with both clients: the asyncio client behind the interface of the other one."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Iterator, Type

from edgesync import AsyncClient


class Blocking:
    """An :class:`AsyncClient` with its own event loop. One thread uses it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._client = AsyncClient(*arguments, **options)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = method(*arguments, **options)
            if inspect.iscoroutine(result):
                return self._loop.run_until_complete(result)
            return self._iterate(result) if inspect.isasyncgen(result) else result

        return call

    def _iterate(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._loop.run_until_complete(items.__anext__())
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run_until_complete(items.aclose())

    def close(self) -> None:
        self._client.close()
        self._loop.close()

    def __enter__(self) -> "Blocking":
        return self

    def __exit__(self, *arguments: Any) -> None:
        self.close()


def for_asyncio(kind: Type[Any]) -> Type[Any]:
    """The same tests once more, with the asyncio client."""
    return type(f"Async{kind.__name__}", (kind,), {"make_client": Blocking, "__module__": kind.__module__})
