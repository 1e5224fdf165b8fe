"""Versions of schemas and forms: both clients against a real agent whose hub has the second version."""

from __future__ import annotations

import unittest
from typing import Any, Callable, List

from both import for_asyncio
from stand import AUDITS, DOORS, AgentTestCase, until

from edgesync import Mutation, errors, field


class FormTests(AgentTestCase):
    options = {"entities": AUDITS}

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.stand.publish("forms", "doors", {"title": "Fire doors", "schema": DOORS})
        cls.stand.sync()

    def app(self, version: int) -> Any:
        """A client of an app that writes and reads audits in this version."""
        client = self.make_client(self.stand.socket, schemas={"audits": version})
        self.addCleanup(client.close)
        return client

    def name(self) -> str:
        """An id that no other test has."""
        return f"{self.id().rpartition('.')[2][5:55]}-{type(self).__name__[:5]}"

    # MARK: Versions

    def test_an_older_app_goes_on_beside_a_newer_one(self) -> None:
        older, newer, id = self.app(1), self.app(2), self.name()
        receipt = older.enqueue(Mutation("audits", "upsert", id, {"site": "s-1"}))
        self.assertEqual(older.record("audits", id).data, {"site": "s-1"})
        self.assertEqual(newer.record("audits", id).data, {"site_id": "s-1"})
        # An app that names no version has the present one.
        self.assertEqual(self.client.record("audits", id).data, {"site_id": "s-1"})
        newer.enqueue(Mutation("audits", "update", id, {"site_id": "s-2"}))
        self.assertEqual([it.data for it in older.records("audits", field("site").eq("s-2"))], [{"site": "s-2"}])
        self.stand.sync()
        older.wait(receipt.id).require_delivered()
        self.assertEqual(self.stand.hub_records("audits")[id], {"site_id": "s-2"})

    def test_a_mutation_may_be_of_another_version_than_its_client(self) -> None:
        id = self.name()
        mutations = [Mutation("audits", "upsert", f"{id}-{it}", {"site": it}, schema=1) for it in "abc"]
        self.app(2).enqueue(mutations[0])
        self.client.enqueue_atomic(mutations[1:2])
        self.assertEqual([it.error for it in self.client.enqueue_many(mutations[2:])], [None])
        for it in "abc":
            self.assertEqual(self.client.record("audits", f"{id}-{it}").data, {"site_id": it})

    def test_a_version_that_is_not_accepted_is_told_with_its_place(self) -> None:
        ahead, id = self.app(3), self.name()
        change = Mutation("audits", "upsert", id, {"site": "s-1"})
        calls: List[Callable[[], Any]] = [
            lambda: ahead.enqueue(change),
            lambda: ahead.record("audits", id),
            lambda: list(ahead.records("audits")),
            lambda: self.client.enqueue(Mutation("audits", "upsert", id, {}, schema=3)),
        ]
        for call in calls:
            with self.assertRaises(errors.ValidationFailed) as caught:
                call()
            error = caught.exception
            self.assertEqual((error.code, error.status, error.field), ("validation", 422, "/schema"))
            self.assertIn("accepted: 1, 2", error.sentence)
        lines = list(ahead.enqueue_many([change]))
        self.assertIsInstance(lines[0].error, errors.ValidationFailed)
        # Other entities are not concerned.
        ahead.enqueue(Mutation("work_orders", "upsert", id, {"n": 1}))

    # MARK: Forms

    def test_progress_is_counted_while_a_form_is_filled_in(self) -> None:
        id = self.name()
        receipt = self.client.enqueue(Mutation("audits", "upsert", id, {"form_id": "doors", "closes": "fail"}))
        self.assertIsNone(receipt.form)
        found = self.client.progress("audits", id)
        self.assertEqual((found.form.state, found.form.id, found.title), ("judged", "doors", "Fire doors"))
        self.assertEqual((found.counts, found.is_complete, found.says_complete), ((2, 1, 2, 1, 50), False, False))
        self.assertEqual([(it.id, it.applies, it.counts.percent) for it in found.sections], [("doors", True, 50)])
        self.assertEqual(
            [(it.pointer, it.sentence) for it in found.holes], [("/reason", "is required (What is wrong?)")]
        )
        with self.assertRaises(errors.ValidationFailed) as caught:
            self.client.enqueue(Mutation("audits", "update", id, {"status": "completed"}))
        self.assertEqual([it.pointer for it in caught.exception.fields], ["/data/reason"])
        self.client.enqueue(Mutation("audits", "update", id, {"status": "completed", "reason": "hinge"}))
        found = self.client.progress("audits", id)
        self.assertEqual((found.percent, found.is_complete, found.says_complete, found.holes), (100, True, True, ()))

    def test_a_form_that_is_not_here_judges_nothing(self) -> None:
        id = self.name()
        receipt = self.client.enqueue(Mutation("audits", "upsert", id, {"form_id": "roofs", "closes": 7}))
        self.assertEqual(receipt.form, "absent")
        found = self.client.progress("audits", id)
        self.assertEqual((found.form.state, found.form.id, found.percent), ("absent", "roofs", None))
        self.assertTrue(found.form.reason)
        self.client.enqueue(Mutation("audits", "upsert", f"{id}-plain", {"site_id": "s-1"}))
        self.assertEqual(self.client.progress("audits", f"{id}-plain").form.state, "none")
        with self.assertRaises(errors.NotFound):
            self.client.progress("audits", f"{id}-nowhere")

    def test_a_new_form_is_there_after_a_sync(self) -> None:
        id = self.name()
        self.client.enqueue(Mutation("audits", "upsert", id, {"form_id": id}))
        self.stand.publish("forms", id, {"title": "Stairs", "schema": {**DOORS, "title": "Stairs"}})

        def is_there() -> bool:
            self.stand.sync()
            return bool(self.client.progress("audits", id).title == "Stairs")

        until("the form is there", is_there)


AsyncFormTests = for_asyncio(FormTests)


if __name__ == "__main__":
    unittest.main()
