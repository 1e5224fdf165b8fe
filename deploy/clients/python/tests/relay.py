"""A Unix socket in front of the agent's, which can lose the agent's answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Callable, List, Optional


class Relay:
    """Passes bytes in both directions.

    :attr:`on_answer` is called with what the agent sends. What it returns is passed on in its place. If that is less,
    the connection ends behind it; ``None`` passes nothing on.
    """

    def __init__(self, path: str, agent: str) -> None:
        self.path = path
        self.on_answer: Optional[Callable[[bytes], Optional[bytes]]] = None
        self._agent = agent
        self._sockets: List[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                agent = socket.socket(socket.AF_UNIX)
                self._sockets += [client, agent]
                try:
                    agent.connect(self._agent)
                except OSError:
                    # The agent's socket refuses, so this one does as well.
                    client.close()
                    agent.close()
                    continue
                threading.Thread(target=self._pass, args=(client, agent, False), daemon=True).start()
                threading.Thread(target=self._pass, args=(agent, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if is_answer and self.on_answer is not None:
                    passed = self.on_answer(data) or b""
                    target.sendall(passed)
                    if len(passed) < len(data):
                        break
                else:
                    target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
