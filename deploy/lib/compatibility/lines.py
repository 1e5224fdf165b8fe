"""The way of a device to its hub, with what can happen to it."""
import socket, threading

from processes import PATIENCE


class Line:
    """The way of one device to its hub. It counts bytes, can be cut, and can swallow answers or cut an upload in the middle."""

    def __init__(self, port):
        self.target, self.up, self.down = port, 0, 0
        self.is_cut = self.swallows = False
        #: After so many bytes more in the direction of the hub the line is cut.
        self.left = None
        self.pairs, self.lock = set(), threading.Lock()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, is_cut=True):
        self.is_cut = is_cut
        if is_cut: self._close_all()

    def close(self):
        self.cut()
        self.server.close()

    def _close_all(self):
        with self.lock: pairs, self.pairs = self.pairs, set()
        for pair in pairs: shut(*pair)

    def _accept(self):
        while True:
            try: near, _ = self.server.accept()
            except OSError: return  # The line was closed.
            if self.is_cut:
                shut(near)
                continue
            try: far = socket.create_connection(("127.0.0.1", self.target), timeout=PATIENCE)
            except OSError:
                shut(near)  # The hub is away.
                continue
            far.settimeout(None)
            with self.lock: self.pairs.add((near, far))
            threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source, target, is_up):
        try:
            while data := source.recv(16_384):
                if is_up:
                    self.up += len(data)
                    if self.left is not None:
                        self.left -= len(data)
                        if self.left <= 0: self.left, self.is_cut = None, True
                else:
                    self.down += len(data)
                    if self.swallows: break
                target.sendall(data)
                if self.is_cut: break
        except OSError:
            pass  # One of both sides has ended; the other one must, too.
        shut(source, target)


def shut(*sockets):
    for one in sockets:
        try: one.shutdown(socket.SHUT_RDWR)
        except OSError: pass  # It is closed already.
        one.close()
