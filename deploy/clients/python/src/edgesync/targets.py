"""Targets that the bytes of a file go to: a path, where the file appears whole or not at all, and a binary file of the app."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import threading
from types import TracebackType
from typing import BinaryIO, Optional, Type

from .sources import Path


class SavedFile:
    """A new file beside its final name. :meth:`commit` makes it durable and gives it that name, in place of a file that has it.

    Threads may share it, so that one can discard it while another one writes.

    :raises OSError: The folder takes no new file.
    """

    def __init__(self, path: Path) -> None:
        self.size = 0
        self._path = os.path.abspath(os.fspath(path))
        self._folder = os.path.dirname(self._path)
        self._part = os.path.join(self._folder, f".edgesync-{secrets.token_hex(8)}.part")
        self._lock = threading.Lock()
        # The permissions are those of any new file of this process.
        self._descriptor: Optional[int] = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, piece: bytes) -> None:
        with self._lock:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(self._open(), rest) :]
            self.size += len(piece)

    def commit(self) -> int:
        """Returns the size of the file, which is on flash under its final name."""
        with self._lock:
            os.fsync(self._open())
            os.close(self._open())
            self._descriptor = None
            try:
                os.rename(self._part, self._path)
            except OSError:
                self._remove()
                raise
            # The name is durable when its folder is.
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            return self.size

    def discard(self) -> None:
        """Removes the new file, unless it has its final name."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
                self._remove()

    def __enter__(self) -> "SavedFile":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.discard()

    def _open(self) -> int:
        if self._descriptor is None:
            raise ValueError("the file is closed")
        return self._descriptor

    def _remove(self) -> None:
        # The reason why it is removed is the one that the caller needs.
        with contextlib.suppress(OSError):
            os.remove(self._part)


def write_to(file: BinaryIO, piece: bytes) -> None:
    """Writes all of a piece. A file that is not buffered may accept it in parts.

    :raises BlockingIOError: The file does not wait, and accepts nothing now.
    """
    rest = piece
    while rest:
        count: Optional[int] = file.write(rest)
        if count is None:
            if isinstance(file, io.RawIOBase):
                raise BlockingIOError("the file accepts no bytes now")
            # A type that does not follow the protocol of files says nothing, and has accepted all.
            return
        rest = rest[count:]
