"""Sources that a call reads part by part: mutations, and the bytes of files."""

from __future__ import annotations

import contextlib
import io
import mimetypes
import os
from typing import Any, AsyncIterable, BinaryIO, Generic, Iterable, Iterator, Optional, TypeVar, Union

from .core import requests
from .core.effects import END
from .errors import InvalidArgument

T = TypeVar("T")
Path = Union[str, "os.PathLike[str]"]


class Source:
    """An empty source, for a request that is complete."""

    def fetch(self, size: int) -> Any:
        """The next part, or ``END``."""
        return END

    def rewind(self) -> bool:
        """Goes back to the first part. Returns whether that is possible."""
        return True


class Items(Source, Generic[T]):
    """The elements of an iterable."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)

    def fetch(self, size: int) -> Any:
        return next(self._items, END)

    def rewind(self) -> bool:
        return False


class AsyncItems(Source, Generic[T]):
    """The elements of an asynchronous iterable; :meth:`fetch` makes something to wait for."""

    def __init__(self, items: AsyncIterable[T]) -> None:
        self._items = items.__aiter__()

    async def fetch(self, size: int) -> Any:
        try:
            return await self._items.__anext__()
        except StopAsyncIteration:
            return END

    def rewind(self) -> bool:
        return False


class FileBytes(Source):
    """The bytes of a binary file, from its present position to its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start: Optional[int] = None
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._start = file.tell() if file.seekable() else None

    def fetch(self, size: int) -> Any:
        return self._file.read(size) or END

    def rewind(self) -> bool:
        if self._start is None:
            return False
        self._file.seek(self._start)
        return True


class BlobSource:
    """A file on its way to the agent: the request, and where its bytes come from."""

    def __init__(self, request: requests.Request, bytes: Source) -> None:
        self.request = request
        self.bytes = bytes


@contextlib.contextmanager
def opened(file: Path, by: str, filename: Optional[str], type: Optional[str]) -> Iterator[BlobSource]:
    """A file that is named by its path; see ``Client.add_blob``.

    :raises OSError: It cannot be opened.
    """
    path = os.fspath(file)
    name = filename if filename is not None else os.path.basename(path)
    kind = media_type(name, type)
    if by == "path":
        yield BlobSource(requests.add_blob_path(name, kind, os.path.abspath(path)), Source())
    elif by == "descriptor":
        with open(path, "rb", buffering=0) as raw:
            yield BlobSource(requests.add_blob_descriptor(name, kind, raw.fileno()), Source())
    elif by == "stream":
        with open(path, "rb") as buffered:
            size = os.fstat(buffered.fileno()).st_size
            yield BlobSource(requests.add_blob_stream(name, kind, size), FileBytes(buffered))
    else:
        raise InvalidArgument(f"must be descriptor, path or stream, and not {by!r}", "by")


def stream(content: Union[bytes, BinaryIO], filename: str, type: Optional[str]) -> BlobSource:
    """Bytes, or a file that is open already."""
    kind = media_type(filename, type)
    if isinstance(content, bytes):
        return BlobSource(requests.add_blob_stream(filename, kind, len(content)), FileBytes(io.BytesIO(content)))
    return BlobSource(requests.add_blob_stream(filename, kind, None), FileBytes(content))


def handed_over(descriptor: int, filename: str, type: Optional[str]) -> BlobSource:
    """A descriptor of a regular file."""
    return BlobSource(requests.add_blob_descriptor(filename, media_type(filename, type), descriptor), Source())


def media_type(filename: str, given: Optional[str]) -> str:
    """The given media type, or the one that the name suggests."""
    return given or mimetypes.guess_type(filename)[0] or "application/octet-stream"
