"""Both clients over real sockets, against peers that behave badly."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from typing import Any, Callable, List, Optional

from both import for_asyncio
from script import answer, chunk, feed, parse, problem

from edgesync import AsyncClient, Client, Environment, Mutation, Reload, RetryPolicy, errors

ITEM = {
    "id": "m-1",
    "seq": 1,
    "entity": "e",
    "record_id": "r",
    "action": "create",
    "state": "done",
    "priority": "normal",
    "attempts": 0,
}


class Peer:
    """Accepts connections and gives each request to a function, which writes what it likes."""

    def __init__(self, folder: str, serve: Callable[[socket.socket, int], None]) -> None:
        self.path = f"{folder}/peer.sock"
        self.requests = 0
        self._serve = serve
        self._open: List[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            while True:
                piece = connection.recv(65536)
                if not piece:
                    break
                data += piece
                if parse(data) is not None:
                    data = b""
                    self.requests += 1
                    self._serve(connection, self.requests)
        connection.close()

    def close(self) -> None:
        self._listener.close()
        for connection in self._open:
            # The thread that reads it wakes up and closes it.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class PeerTests(unittest.TestCase):
    make_client: Any = Client

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="edgesync-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def peer(self, serve: Callable[[socket.socket, int], None], **options: Any) -> Any:
        peer = Peer(self.folder, serve)
        self.addCleanup(peer.close)
        self.served = peer
        return self.client(peer.path, **options)

    def client(self, path: str, **options: Any) -> Any:
        client = self.make_client(path, **{"deadline": 60.0, **options})
        self.addCleanup(client.close)
        return client

    def test_an_answer_that_breaks_off_is_asked_for_again(self) -> None:
        whole = answer(200, ITEM)

        def serve(connection: socket.socket, number: int) -> None:
            connection.sendall(whole if number == 4 else whole[: number * 40])
            if number < 4:
                connection.shutdown(socket.SHUT_RDWR)

        self.assertEqual(self.peer(serve).mutation("m-1").id, "m-1")
        self.assertEqual(self.served.requests, 4)

    def test_an_answer_that_always_breaks_off_is_a_typed_error(self) -> None:
        def serve(connection: socket.socket, number: int) -> None:
            connection.sendall(answer(200, ITEM)[:-1])
            connection.shutdown(socket.SHUT_RDWR)

        class Thrice(RetryPolicy):
            """Gives up after the third try, and not by the clock: a busy machine may be within a try when time is over."""

            def decide(self, error: errors.EdgeSyncError, *, tries: int, **failure: Any) -> Optional[float]:
                return super().decide(error, tries=tries, **failure) if tries < 3 else None

        with self.assertRaises(errors.BrokenAnswer) as caught:
            self.peer(serve, environment=Environment(policy=Thrice())).mutation("m-1")
        self.assertIn("GET /v1/mutations/m-1: the agent closed the connection within its answer", str(caught.exception))
        self.assertEqual(self.served.requests, 3)

    def test_a_feed_that_breaks_off_in_an_event_resumes(self) -> None:
        event = "id: {0}\nevent: weather\ndata: {{}}\n\n"

        def serve(connection: socket.socket, number: int) -> None:
            if number == 1:
                connection.sendall(feed("id: 7\n\n", event.format(8)) + chunk(event.format(9))[:-9])
                connection.shutdown(socket.SHUT_RDWR)
            else:
                connection.sendall(feed(event.format(9)))

        events = self.peer(serve).follow()
        self.assertEqual([next(events).position for _ in range(3)], [7, 8, 9])
        events.close()

    def test_a_peer_that_never_answers_ends_with_the_deadline(self) -> None:
        with self.assertRaises(errors.DeadlinePassed):
            self.peer(lambda connection, number: None, deadline=0.2).mutation("m-1")

    def test_what_is_no_agent_is_told(self) -> None:
        for data in [
            b"SSH-2.0-OpenSSH\r\n",
            answer(200, b"<html>", kind="text/html"),
            answer(302),
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        ]:
            client = self.peer(lambda connection, number, data=data: connection.sendall(data))  # type: ignore[misc]
            with self.subTest(data), self.assertRaises(errors.BadAnswer):
                client.mutation("m-1")
            self.served.close()
            os.remove(self.served.path)

    def test_a_connection_is_used_again_until_the_peer_closes_it(self) -> None:
        closed = threading.Event()

        def serve(connection: socket.socket, number: int) -> None:
            connection.sendall(answer(200, ITEM))
            if number == 2:
                connection.shutdown(socket.SHUT_RDWR)
                closed.set()

        client = self.peer(serve)
        for number in range(4):
            client.mutation("m-1")
            if number == 1:
                self.assertTrue(closed.wait(10))
        self.assertEqual((self.served.requests, len(self.served._open)), (4, 2))

    def test_a_refusal_in_the_middle_of_an_upload_is_read(self) -> None:
        class Early(Peer):
            def _read(self, connection: socket.socket) -> None:
                connection.recv(100)
                connection.sendall(problem(413, "too-large", "the file is too large"))
                # Reads no more, and waits until the client has left.
                poll = select.poll()
                poll.register(connection, 0)
                poll.poll(10_000)
                connection.close()

        peer = Early(self.folder, lambda connection, number: None)
        self.addCleanup(peer.close)
        with self.assertRaises(errors.TooLarge):
            self.client(peer.path).add_blob_stream(bytes(10_000_000), "x")

    def test_wrong_paths(self) -> None:
        with open(f"{self.folder}/file", "w"):
            pass
        for path, kind, words in [
            ("missing", errors.NoSocket, "there is no socket at "),
            ("file/below", errors.NoSocket, "there is no socket at "),
            ("file", errors.Unreachable, "no agent listens at the socket "),
        ]:
            with self.subTest(path), self.assertRaises(kind) as caught:
                self.client(f"{self.folder}/{path}", deadline=1).status()
            self.assertIn(words + f"{self.folder}/{path}", str(caught.exception))
            self.assertTrue(caught.exception.next_step)
        for path in ["", "x" * 200, "a\0b"]:
            with self.subTest(path), self.assertRaises(errors.InvalidArgument):
                self.client(path)

    def test_no_permission(self) -> None:
        peer = Peer(self.folder, lambda connection, number: None)
        self.addCleanup(peer.close)
        os.chmod(peer.path, 0o000)
        if os.geteuid() != 0:
            with self.assertRaises(errors.SocketNotPermitted):
                self.client(peer.path).status()
            return
        # The superuser may open everything, so another user has to try.
        os.chmod(self.folder, 0o755)
        program = (
            f"import sys; sys.path[:0] = {sys.path!r}\n"
            "from edgesync import Client, errors\n"
            f"try: Client({peer.path!r}).status()\n"
            "except errors.SocketNotPermitted as error: print(error)\n"
        )
        # Imported as the superuser: the other one need not be able to read this checkout.
        program = program.replace("\ntry:", "\nimport os; os.setgid(65534); os.setuid(65534)\ntry:", 1)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertIn(f"this user may not open the socket {peer.path} (socket-not-permitted)", done.stdout, done.stderr)
        self.assertIn("sudo adduser USER agentd", done.stdout)

    def test_a_feed_that_is_left_gives_its_connection_back(self) -> None:
        client = self.peer(lambda connection, number: connection.sendall(feed("id: 7\n\n")))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            events = client.follow()
            self.assertIsInstance(next(events), Reload)
            events.close()
        self.served.close()
        self.assertLessEqual(len(os.listdir("/proc/self/fd")), before + 21)


AsyncPeerTests = for_asyncio(PeerTests)


class ConcurrencyTests(unittest.TestCase):
    """Many calls at the same time share four connections."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="edgesync-")
        self.addCleanup(folder.cleanup)
        self.peer = Peer(folder.name, lambda connection, number: connection.sendall(answer(200, ITEM)))
        self.addCleanup(self.peer.close)

    def test_threads(self) -> None:
        with Client(self.peer.path) as client:
            results: List[str] = []
            threads = [
                threading.Thread(target=lambda: results.extend(client.mutation("m-1").id for _ in range(20)))
                for _ in range(16)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(results, ["m-1"] * 320)
        self.assertLessEqual(len(self.peer._open), 4)

    def test_tasks(self) -> None:
        async def ask() -> None:
            async with AsyncClient(self.peer.path) as client:
                items = await asyncio.gather(*(client.mutation("m-1") for _ in range(200)))
                self.assertEqual(len(items), 200)

        asyncio.run(ask())
        self.assertLessEqual(len(self.peer._open), 4)

    def test_a_cancelled_task_gives_its_place_back(self) -> None:
        async def ask() -> None:
            async with AsyncClient(self.peer.path) as client:
                for _ in range(20):
                    tasks = [asyncio.ensure_future(client.mutation("m-1")) for _ in range(8)]
                    await asyncio.sleep(0)
                    for task in tasks[::2]:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                self.assertEqual((await client.mutation("m-1")).id, "m-1")

        asyncio.run(ask())


class SurfaceTests(unittest.TestCase):
    def test_both_clients_have_the_same_methods(self) -> None:
        def surface(kind: type) -> Any:
            methods = {
                name: it for name, it in vars(kind).items() if inspect.isfunction(it) and not name.startswith("_")
            }
            parameters = {
                name: [(it.name, it.kind, it.default) for it in inspect.signature(method).parameters.values()]
                for name, method in methods.items()
            }
            return parameters, {name: method.__doc__ for name, method in methods.items()}

        self.assertEqual(surface(Client), surface(AsyncClient))
        self.assertTrue(all(surface(Client)[1].values()))

    def test_arguments_that_cannot_be_are_refused_before_a_request(self) -> None:
        client = Client("/nowhere.sock")
        calls: List[Callable[[], Any]] = [
            lambda: client.record("", "x"),
            lambda: client.mutation("m", deadline=0),
            lambda: Client("/x", deadline=-1),
            lambda: client.enqueue_atomic([]),
            lambda: client.enqueue_atomic([Mutation("e", "create", key="k")]),
            lambda: client.add_blob(__file__, by="pigeon"),
            lambda: client.enqueue(Mutation("e", "create", key="two\nlines")),
        ]
        for call in calls:
            with self.assertRaises(errors.InvalidArgument):
                call()

    def test_a_file_that_is_not_there_is_the_system_s_error(self) -> None:
        with self.assertRaises(OSError) as caught:
            Client("/nowhere.sock").add_blob("/does/not/exist")
        self.assertEqual(caught.exception.errno, errno.ENOENT)


if __name__ == "__main__":
    unittest.main()
