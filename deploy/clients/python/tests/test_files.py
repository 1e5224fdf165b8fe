"""Files that one gateway brings and another one has come from the hub: both clients against real programs."""

from __future__ import annotations

import hashlib
import io
import os
import random
import unittest
from typing import Any, List, Optional

from both import for_asyncio
from relay import Relay
from stand import AgentTestCase, Gateway, until

from edgesync import Client, Mutation, errors

#: Several pieces of the socket, and several of the hub.
SIZE = 3_000_000


class FileTests(AgentTestCase):
    neighbour: Gateway

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        try:
            cls.neighbour = cls.stand.add_neighbour("gw-2")
        except BaseException:
            cls.tearDownClass()
            raise

    def name(self) -> str:
        """An id that no other test has."""
        return f"{self.id().rpartition('.')[2][5:55]}-{type(self).__name__[:5]}"

    def bring(self, size: int = SIZE) -> bytes:
        """Lets the other gateway bring a file that a record shows, and waits until this one has the record."""
        content = random.Random(self.name()).randbytes(size)
        with Client(self.neighbour.socket) as client:
            client.enqueue(Mutation("inspections", "upsert", self.name(), {"n": 1}))
            blob = client.add_blob_stream(content, "door.jpg", type="image/jpeg")
            attached = [("photo", blob.id)]
            client.enqueue(Mutation("inspections", "update", self.name(), attachments=attached))  # type: ignore[arg-type]

        def is_shown() -> bool:
            self.neighbour.sync()
            self.stand.sync()
            try:
                return any(it.is_uploaded for it in self.client.record("inspections", self.name()).files("photo"))
            except errors.NotFound:
                return False

        until("the record shows the file", is_shown)
        return content

    def shown(self) -> Any:
        """The placeholder of the file that was brought."""
        return self.client.record("inspections", self.name()).files("photo")[0]

    def parts(self) -> List[str]:
        return [it for it in os.listdir(self.stand.folder) if it.endswith(".part")]

    def test_a_file_comes_when_an_app_waits_for_it(self) -> None:
        content = self.bring()
        placeholder = self.shown()
        self.assertEqual((placeholder.size, placeholder.type), (len(content), "image/jpeg"))
        with self.assertRaises(errors.BlobFetching) as caught:
            self.client.blob_bytes(placeholder)
        error = caught.exception
        self.assertEqual((error.size, error.status, error.is_transient), (len(content), 503, True))
        assert error.blob is not None and error.offset is not None
        self.assertIn(f"agentctl why {error.blob}", str(error))

        path = f"{self.stand.folder}/{self.name()}.jpg"
        self.assertEqual(self.client.save_blob(placeholder, path, wait=60), len(content))
        with open(path, "rb") as file:
            self.assertEqual(file.read(), content)
        self.assertEqual((os.stat(path).st_mode & 0o777, self.parts()), (0o666 & ~umask(), []))
        blob = self.client.blob(error.blob)
        self.assertEqual((blob.direction, blob.state, blob.is_kept, blob.is_pinned), ("down", "fetched", True, False))
        self.assertEqual(blob.digest, "sha256:" + hashlib.sha256(content).hexdigest())
        # Other names of the file lead to the same bytes, and now without a wait.
        raw = self.client.record("inspections", self.name()).data["photo"]
        for name in [blob.id, blob.digest, blob, raw]:
            self.assertEqual(self.client.blob_bytes(name), content)
        buffer = io.BytesIO()
        self.assertEqual(self.client.copy_blob(blob.digest, buffer), len(content))
        self.assertEqual(buffer.getvalue(), content)
        with self.assertRaises(errors.TooLarge):
            self.client.blob_bytes(blob, max=len(content) - 1)

    def test_a_file_is_fetched_ahead_and_pinned(self) -> None:
        content = self.bring(100_000)
        wanted = self.client.fetch_blob(self.shown())
        self.assertEqual((wanted.direction, wanted.size), ("down", len(content)))
        until("it is here", lambda: self.client.blob(wanted.id).is_kept)
        self.assertEqual(self.client.fetch_blob(wanted.digest).state, "fetched")
        self.assertTrue(self.client.pin_blob(wanted.id).is_pinned)
        self.assertTrue(self.client.blob(wanted.id).is_pinned)
        self.assertFalse(self.client.unpin_blob(self.shown()).is_pinned)
        self.assertEqual(self.client.retry_blob(wanted.id).state, "fetched")

    def test_a_copy_goes_on_over_broken_connections_and_a_restart(self) -> None:
        content = self.bring()
        relay = Relay(f"{self.stand.folder}/relay-cut-{type(self).__name__}", self.stand.socket)
        self.addCleanup(relay.close)
        client = self.make_client(relay.path)
        self.addCleanup(client.close)
        placeholder = self.shown()
        passed = 0
        cuts = iter([100_000, 900_000, 2_000_000])
        cut = next(cuts)

        def on_answer(data: bytes) -> Optional[bytes]:
            nonlocal passed, cut
            if passed + len(data) < cut:
                passed += len(data)
                return data
            part = data[: max(0, cut - passed)]
            passed += len(part)
            cut = next(cuts, 10**9)
            if cut == 2_000_000:
                self.stand.kill_agent()
                self.stand.start_agent()
            return part

        relay.on_answer = on_answer
        path = f"{self.stand.folder}/{self.name()}.jpg"
        self.assertEqual(client.save_blob(placeholder, path, wait=60), len(content))
        relay.on_answer = None
        self.assertEqual(cut, 10**9, "each cut happened")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), content)

    def test_a_copy_that_fails_leaves_what_was_there(self) -> None:
        self.bring(100_000)
        placeholder = self.shown()
        path = f"{self.stand.folder}/{self.name()}.jpg"
        with open(path, "w") as file:
            file.write("old")
        self.client.fetch_blob(placeholder)
        until("it is here", lambda: self.client.fetch_blob(placeholder).is_kept)

        def spoil(data: bytes) -> Optional[bytes]:
            # The head may come alone.
            return data if data.endswith(b"\r\n\r\n") else data[:-1] + bytes([data[-1] ^ 1])

        relay = Relay(f"{self.stand.folder}/relay-spoil-{type(self).__name__}", self.stand.socket)
        self.addCleanup(relay.close)
        relay.on_answer = spoil
        client = self.make_client(relay.path)
        self.addCleanup(client.close)
        with self.assertRaises(errors.DigestMismatch):
            client.save_blob(placeholder, path)
        with open(path) as file:
            self.assertEqual(file.read(), "old")
        with self.assertRaises(OSError):
            self.client.save_blob(placeholder, f"{path}/below")
        with self.assertRaises(OSError):
            self.client.save_blob(placeholder, self.stand.folder)
        self.assertEqual(self.parts(), [])

    def test_a_file_that_the_hub_does_not_have_is_given_up(self) -> None:
        digest = "sha256:" + hashlib.sha256(self.name().encode()).hexdigest()
        photo = {"$blob": digest, "size": 7, "type": "text/plain", "state": "uploaded"}
        self.stand.publish("inspections", self.name(), {"photo": photo})
        self.stand.sync()
        with self.assertRaises(errors.BlobNotFetched) as caught:
            self.client.blob_bytes(digest, wait=60)
        assert caught.exception.blob is not None
        self.assertEqual(self.client.blob(caught.exception.blob).state, "failed")
        # It is given up until it is asked for again.
        with self.assertRaises(errors.BlobNotFetched):
            self.client.blob_bytes(digest)
        self.assertEqual(self.client.fetch_blob(digest).state, "fetching")
        nowhere = "sha256:" + "0" * 64
        for call in [self.client.blob_bytes, self.client.fetch_blob, self.client.pin_blob, self.client.unpin_blob]:
            with self.assertRaises(errors.NotFound):
                call(nowhere)

    def test_a_wait_that_is_over_tells_why_the_file_waits(self) -> None:
        self.bring(50_000)
        placeholder = self.shown()
        with self.stand.paused():
            with self.assertRaises(errors.BlobFetching) as caught:
                self.client.blob_bytes(placeholder, wait=0.2)
            self.assertEqual((caught.exception.offset, caught.exception.reason), (0, "paused"))
        self.assertEqual(len(self.client.blob_bytes(placeholder, wait=60)), 50_000)


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


AsyncFileTests = for_asyncio(FileTests)


if __name__ == "__main__":
    unittest.main()
