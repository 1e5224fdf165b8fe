"""Unix sockets, for both clients: they are opened, written and read without waiting."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Callable, List, Optional, Union

from .core import limits
from .core.effects import ConnectFailure, Connection, Moved
from .errors import InvalidArgument

DEFAULT_SOCKET = "/run/agentd/agent.sock"
# sun_path of unix(7), with the NUL that ends it.
_PATH_BYTES = 107


def socket_path(given: Optional[Union[str, "os.PathLike[str]"]]) -> str:
    """The given path, or the value of the environment variable ``AGENTD_SOCKET``, or :data:`DEFAULT_SOCKET`.

    :raises InvalidArgument: It cannot be the path of a socket.
    """
    path = os.fspath(given) if given is not None else os.environ.get("AGENTD_SOCKET") or DEFAULT_SOCKET
    if not path or "\0" in path or len(os.fsencode(path)) > _PATH_BYTES:
        raise InvalidArgument(f"the path of a socket has 1 to {_PATH_BYTES} bytes, and this is none: {path!r}")
    return path


class UnixConnection(Connection):
    """A connected socket whose calls never wait."""

    def __init__(self, connected: socket.socket, is_feed: bool) -> None:
        self.socket = connected
        self.is_feed = is_feed
        self.released_at = 0.0

    def try_write(self, data: Union[bytes, memoryview], descriptor: Optional[int]) -> Optional[Moved]:
        """Writes what the kernel accepts now; ``None``: nothing."""
        try:
            if descriptor is not None:
                return Moved(written=socket.send_fds(self.socket, [data], [descriptor]))
            return Moved(written=self.socket.send(data, socket.MSG_NOSIGNAL))
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            return Moved(failure=error.strerror or str(error))

    def try_read(self) -> Optional[Moved]:
        """Reads what is there; ``None``: nothing."""
        try:
            received = self.socket.recv(limits.PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            return Moved(failure=error.strerror or str(error))
        return Moved(received=received, is_at_end=not received)

    def close(self) -> None:
        self.socket.close()


def open_socket(path: str, is_feed: bool) -> UnixConnection:
    """Connects to a socket. A Unix socket accepts at once or not at all, so there is nothing to wait for.

    :raises OSError: It does not.
    """
    fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        fresh.setblocking(False)
        fresh.connect(path)
        return UnixConnection(fresh, is_feed)
    except BaseException:
        fresh.close()
        raise


def failure(error: OSError) -> ConnectFailure:
    return ConnectFailure(error.errno or 0, error.strerror or str(error))


class IdleConnections:
    """Connections that wait for the next request. Threads may share it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._idle: List[UnixConnection] = []
        self._process = os.getpid()
        self._is_closed = False

    def take(self) -> Optional[UnixConnection]:
        """One that the agent has most likely not closed yet, the last used first."""
        with self._lock:
            if self._process != os.getpid():
                # They belong to the process that this one was forked from: two must not speak on one connection.
                self._process = os.getpid()
                for connection in self._idle:
                    connection.close()
                self._idle = []
            while self._idle:
                connection = self._idle.pop()
                # An idle connection has nothing to read; one that has was closed, or is out of step.
                if self._now() - connection.released_at < limits.IDLE_SECONDS and connection.try_read() is None:
                    connection.is_used = True
                    return connection
                connection.close()
            return None

    def put(self, connection: UnixConnection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < limits.CONNECTIONS:
                connection.released_at = self._now()
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
