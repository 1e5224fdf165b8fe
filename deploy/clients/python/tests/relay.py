"""A Unix socket in front of the agent's, which can lose the agent's answers."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import Callable, List, Optional


class Relay:
    """Passes bytes in both directions.

    :attr:`on_answer` is called with what the agent sends. What it returns is passed on in its place. If that is less,
    the connection ends behind it; ``None`` passes nothing on.

    :param whole: An answer may come in parts. They are joined, and handed over as one; each answer must have a length.
    """

    def __init__(self, path: str, agent: str, *, whole: bool = False) -> None:
        self.path = path
        self._whole = whole
        self.on_answer: Optional[Callable[[bytes], Optional[bytes]]] = None
        self._agent = agent
        self._sockets: List[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(path)
            self._listener.listen()
        except BaseException:
            self._listener.close()
            raise
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

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
                    while self._whole and not _is_whole(data):
                        more = source.recv(65536)
                        if not more:
                            break
                        data += more
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
        # Ends the thread that accepts, so that no connection comes behind those that are closed here.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _is_whole(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *([0-9]+)", head)
    return bool(separator) and (length is None or len(body) >= int(length[1]))
