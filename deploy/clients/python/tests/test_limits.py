"""Refusals of a real agent: a small app with few rights, while the hub is away."""

from __future__ import annotations

import os
import unittest
from typing import Any, Callable, List, Optional, Tuple, Type

from both import for_asyncio
from stand import PATIENCE, AgentTestCase

from edgesync import Mutation, Outcome, errors

RIGHTS = "role: enqueue, entities: [work_orders, readings], max_priority: normal, app: small, quota_mutations: 5"


class LimitTests(AgentTestCase):
    options = {"hub": False, "access": f'  - {{ user: "{os.geteuid()}", {RIGHTS}, rate: 100000 }}\n'}

    def tearDown(self) -> None:
        for item in self.client.mutations(state=["pending"]):
            self.client.cancel(item.id)

    def test_a_full_outbox_is_told_with_its_setting(self) -> None:
        for number in range(5):
            self.client.enqueue(Mutation("work_orders", "upsert", f"wo-{number}", {"n": number}))
        with self.assertRaises(errors.QueueFull) as caught:
            self.client.enqueue(Mutation("work_orders", "upsert", "wo-5", {"n": 5}))
        error = caught.exception
        self.assertEqual(
            (error.code, error.status, error.members["setting"]), ("queue-full", 507, "access[].quota_mutations")
        )
        self.assertIn("5 mutations of small are open", error.sentence)
        self.assertIn("wait until the hub has accepted some of it, or raise access[].quota_mutations", str(error))

    def test_a_stream_tells_which_lines_had_no_room(self) -> None:
        results = list(self.client.enqueue_many(Mutation("readings", "create", data={"n": it}) for it in range(8)))
        self.assertEqual([it.error is None for it in results], [True] * 5 + [False] * 3)
        self.assertIsInstance(results[7].error, errors.QueueFull)

    def test_what_the_access_rules_do_not_give(self) -> None:
        order = Mutation("work_orders", "upsert", "x", {}, priority="critical")
        other = Mutation("inspections", "upsert", "x", {})
        calls: List[Tuple[Callable[[], Any], Type[errors.Forbidden], Optional[str]]] = [
            (lambda: self.client.enqueue(order), errors.Forbidden, "/priority"),
            (lambda: self.client.enqueue(other), errors.EntityNotAllowed, None),
            (lambda: self.client.record("inspections", "x"), errors.EntityNotAllowed, None),
            (lambda: list(self.client.records("inspections")), errors.EntityNotAllowed, None),
            (lambda: next(self.client.follow(entity="inspections")), errors.EntityNotAllowed, None),
        ]
        for call, kind, pointer in calls:
            with self.assertRaises(kind) as caught:
                call()
            self.assertEqual(caught.exception.field, pointer)
            self.assertIn("access", caught.exception.next_step)
        self.assertIsInstance(list(self.client.enqueue_many([other]))[0].error, errors.EntityNotAllowed)

    def test_a_fifth_feed_is_refused(self) -> None:
        feeds = [self.client.follow() for _ in range(4)]
        for feed in feeds:
            next(feed)
        # The agent asks for 5 s. A client that has less time than that tells the refusal at once, however slow the machine is.
        impatient = self.make_client(self.stand.socket, deadline=4.5)
        self.addCleanup(impatient.close)
        with self.assertRaises(errors.RateLimited):
            next(impatient.follow())
        # Waiting needs a feed, and does without one.
        receipt = self.client.enqueue(Mutation("work_orders", "upsert", "fifth", {"n": 1}))
        with self.assertRaises(errors.DeadlinePassed):
            self.client.wait(receipt.id, timeout=0.5)
        for feed in feeds:
            feed.close()


AsyncLimitTests = for_asyncio(LimitTests)


class ExpiryTests(AgentTestCase):
    options = {"hub": False}

    def test_a_mutation_that_is_not_sent_in_its_time_expires(self) -> None:
        receipt = self.client.enqueue(Mutation("readings", "create", data={"n": 1}, ttl=1))
        item = self.client.wait(receipt.id, timeout=PATIENCE)
        self.assertEqual(item.outcome, Outcome.EXPIRED)
        with self.assertRaises(errors.NotDelivered) as caught:
            item.require_delivered()
        self.assertIn("expired", caught.exception.sentence)


if __name__ == "__main__":
    unittest.main()
