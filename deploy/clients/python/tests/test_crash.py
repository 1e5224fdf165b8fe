"""Kills of the agent in the middle of what apps ask for: nothing is lost, and nothing takes effect twice."""

from __future__ import annotations

import os
import random
import signal
import threading
import unittest
from typing import Any, Callable, List, Optional, Tuple

from both import for_asyncio
from relay import Relay
from stand import PATIENCE, AgentTestCase, until

from edgesync import Mutation, Outcome, RecordChanged, Reload


class CrashTests(AgentTestCase):
    def setUp(self) -> None:
        super().setUp()
        path = f"{self.stand.folder}/relay-{self.id()[-30:]}"
        self.relay = Relay(path, self.stand.socket)
        self.addCleanup(self.relay.close)
        self.relayed = self.make_client(path, deadline=PATIENCE)
        self.addCleanup(self.relayed.close)
        self.before = self.stored()

    def stored(self) -> int:
        """Mutations that the agent ever accepted."""
        return int(self.client.status().enqueued)

    def kill_once(self, keep: Callable[[bytes], Optional[bytes]]) -> None:
        """Lets the first answer die with the agent, which is started again; ``keep`` says what is passed on of it."""

        def on_answer(data: bytes) -> Optional[bytes]:
            self.relay.on_answer = None
            passed = keep(data)
            self.stand.kill_agent()
            self.stand.start_agent()
            return passed

        self.relay.on_answer = on_answer

    def name(self, id: str) -> str:
        return f"{type(self).__name__}-{id}"

    def test_an_answer_that_was_lost_with_the_agent(self) -> None:
        ways: List[Callable[[bytes], Optional[bytes]]] = [lambda data: None, lambda data: data[:-7]]
        for number, keep in enumerate(ways):
            before = self.stored()
            self.kill_once(keep)
            receipt = self.relayed.enqueue(Mutation("work_orders", "create", self.name(f"lost-{number}"), {"n": 1}))
            self.assertTrue(receipt.is_repeat, "the first try was stored, and its answer lost")
            self.assertEqual(self.stored(), before + 1)

    def test_a_request_that_died_with_the_agent(self) -> None:
        # The agent cannot read it, and is killed then.
        before = self._connections()
        self.stand.stop_agent()
        receipts: List[Any] = []
        client = self.make_client(self.stand.socket, deadline=PATIENCE)
        self.addCleanup(client.close)
        mutation = Mutation("work_orders", "create", self.name("unread"), {"n": 1})
        thread = threading.Thread(target=lambda: receipts.append(client.enqueue(mutation)))
        thread.start()
        until("the request is on its way", lambda: self._connections() > before)
        self.stand.kill_agent()
        self.stand.start_agent()
        thread.join()
        self.assertFalse(receipts[0].is_repeat)
        self.assertEqual(self.stored(), self.before + 1)

    def _connections(self) -> int:
        """Connections to the agent's socket that are not accepted yet, or are open."""
        with open("/proc/net/unix") as file:
            return sum(line.split()[5] in ("02", "03") for line in file if line.rstrip().endswith(self.stand.socket))

    def test_a_stream_of_mutations_that_is_cut(self) -> None:
        for number in range(3):
            before = self.stored()
            # The head passes, and as many answers as fit.
            self.kill_once(lambda data: data[: random.Random(data[-1]).randrange(120, 2000)])
            mutations = [Mutation("readings", "create", data={"n": it}) for it in range(600)]
            results = list(self.relayed.enqueue_many(mutations, key_prefix=self.name(f"cut-{number}-")))
            self.assertEqual([it.error for it in results], [None] * 600)
            self.assertEqual(len({it.id for it in results}), 600)
            self.assertEqual(self.stored(), before + 600)

    def test_a_file_whose_answer_was_lost(self) -> None:
        self.kill_once(lambda data: None)
        content = os.urandom(1_000_000)
        blob = self.relayed.add_blob_stream(content, "photo.jpg")
        self.assertEqual(b"".join(self.relayed.read_blob(blob.id)), content)
        self.assertEqual(len([it for it in self.client.blobs() if it.digest == blob.digest]), 1)

    def test_a_feed_goes_on_over_restarts(self) -> None:
        """A writer writes, the agent is killed and stopped several times, and the reader sees each record once."""
        events = self.client.follow(["record"], entity="inspections")
        start = next(events)
        self.assertIsInstance(start, Reload)
        writer = self.make_client(self.stand.socket, deadline=PATIENCE)
        self.addCleanup(writer.close)
        failures: List[BaseException] = []

        def write() -> None:
            try:
                for number in range(200):
                    writer.enqueue(Mutation("inspections", "create", self.name(f"{number:03}"), {"n": number}))
                    if number % 50 == 25:
                        self.stand.kill_agent(signal.SIGKILL if number % 100 < 50 else signal.SIGTERM)
                        self.stand.start_agent()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        seen: List[Tuple[int, str]] = []
        for event in events:
            self.assertIsInstance(event, RecordChanged, "there was no gap")
            seen.append((event.position, event.id))
            if event.id == self.name("199"):
                break
        events.close()
        thread.join()
        self.assertEqual(failures, [])
        # The feed of many connections is the feed of one, and each record is in it.
        whole = []
        again = self.client.follow(["record"], entity="inspections", after=start.position)
        for event in again:
            whole.append((event.position, event.id))
            if event.position >= seen[-1][0]:
                break
        again.close()
        self.assertEqual(seen, whole)
        self.assertLessEqual({self.name(f"{number:03}") for number in range(200)}, {it[1] for it in seen})

    def test_a_wait_goes_on_over_restarts(self) -> None:
        self.stand.stop_hub()
        receipt = self.client.enqueue(Mutation("work_orders", "create", self.name("waits"), {"n": 1}))
        items: List[Any] = []
        thread = threading.Thread(target=lambda: items.append(self.client.wait(receipt.id, timeout=PATIENCE)))
        thread.start()
        for how in [signal.SIGKILL, signal.SIGTERM]:
            self.stand.kill_agent(how)
            self.stand.start_agent()
        self.stand.start_hub()
        self.stand.sync()
        thread.join()
        self.assertEqual(items[0].outcome, Outcome.DELIVERED)


class RandomKillTests(AgentTestCase):
    """Four threads write while the agent is killed at any moment; the hub counts what arrived."""

    KILLS = 8

    def test_each_mutation_takes_effect_once(self) -> None:
        failures: List[BaseException] = []
        written = [0, 0, 0, 0]
        done = threading.Event()

        def write(thread: int) -> None:
            try:
                while not done.is_set():
                    self.client.enqueue(Mutation("readings", "create", f"r-{thread}-{written[thread]}", {"n": 1}))
                    written[thread] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(it,)) for it in range(len(written))]
        for thread in threads:
            thread.start()
        draw = random.Random(7)
        for _ in range(self.KILLS):
            # Each time the writers get some way first, and never the same.
            goal = sum(written) + draw.randrange(1, 30)
            until("the writers go on", lambda goal=goal: sum(written) >= goal or failures)  # type: ignore[misc]
            self.stand.kill_agent()
            self.stand.start_agent()
        done.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.client.status().enqueued, sum(written))

        def is_settled() -> bool:
            self.stand.sync()
            return bool(self.client.status().pending == 0)

        until("everything is at the hub", is_settled)
        self.assertEqual(len(self.stand.hub_records("readings")), sum(written))
        self.assertEqual(self.stand.hub_applied(), sum(written))


AsyncCrashTests = for_asyncio(CrashTests)


if __name__ == "__main__":
    unittest.main()
