"""Both clients against a real agent and its hub."""

from __future__ import annotations

import datetime
import hashlib
import os
import sys
import unittest
from typing import Any, List

from both import for_asyncio
from stand import PATIENCE, AgentTestCase, until

from edgesync import (
    ExactFloat,
    Mutation,
    MutationChanged,
    Operation,
    Outcome,
    RecordChanged,
    Reload,
    all_of,
    any_of,
    errors,
    field,
)

IMPORTS = "/tmp"


class AgentTests(AgentTestCase):
    # The agent may open files of this user below its own folder of temporary files.
    options = {"extra": f'blobs: {{ import_dirs: ["{IMPORTS}"] }}\n'}

    def write(self, id: str, data: Any, **options: Any) -> Any:
        return self.client.enqueue(Mutation("work_orders", "upsert", self.name(id), data, **options))

    def name(self, id: str) -> str:
        """An id that no other test has."""
        return f"{self.id().rpartition('.')[2][5:45]}-{type(self).__name__[:8]}-{id}"

    # MARK: Mutations

    def test_a_key_is_applied_once(self) -> None:
        key = self.name("key")
        first = self.write("a", {"n": 1}, key=key)
        second = self.write("a", {"n": 1}, key=key)
        self.assertEqual((first.is_repeat, second.is_repeat, first.id), (False, True, second.id))
        with self.assertRaises(errors.KeyReused) as caught:
            self.write("a", {"n": 2}, key=key)
        self.assertEqual(caught.exception.code, "idempotency-mismatch")
        self.assertEqual(self.client.record("work_orders", self.name("a")).data, {"n": 1})

    def test_what_is_wrong_is_named(self) -> None:
        for mutation, kind, pointer in [
            (Mutation("work_orders", "upsrt", "x", {}), errors.ValidationFailed, "/action"),
            (Mutation("work_orders", "update", None, {"a": 1}), errors.Malformed, "/record_id"),
            (Mutation("work_orders", "upsert", "not an id", {}), errors.ValidationFailed, "/record_id"),
            (
                Mutation(
                    "work_orders",
                    "upsert",
                    "x",
                    {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
                ),
                errors.Malformed,
                "/data",
            ),
            (Mutation("work_orders", "upsert", "x", {"nul": "\0"}), errors.Malformed, None),
            (Mutation("work_orders", "upsert", "x", {"a": "b" * 200_000}), errors.TooLarge, ""),
            (Mutation("work_orders", "update", "nowhere", {"a": 1}), errors.NotFound, None),
            (Mutation("work_orders", "delete", "x", ttl=1, priority="critical"), errors.ValidationFailed, "/ttl"),
            (
                Mutation("work_orders", "upsert", "x", {"n": "text"}, operations=[Operation("n", "inc", "x")]),
                errors.Malformed,
                "/ops/0/value",
            ),
        ]:
            with self.subTest(mutation), self.assertRaises(kind) as caught:
                self.client.enqueue(mutation)
            self.assertEqual(caught.exception.field, pointer)
            self.assertTrue(caught.exception.sentence and caught.exception.next_step)

    def test_an_atomic_list_is_stored_as_a_whole_or_not_at_all(self) -> None:
        good = [Mutation("work_orders", "create", self.name(id), {"n": 1}) for id in "ab"]
        receipts = self.client.enqueue_atomic(good, key=self.name("key"))
        self.assertEqual([it.record_id for it in receipts], [self.name("a"), self.name("b")])
        again = self.client.enqueue_atomic(good, key=self.name("key"))
        self.assertEqual([it.id for it in again], [it.id for it in receipts])
        self.assertTrue(all(it.is_repeat for it in again))
        with self.assertRaises(errors.AlreadyExists):
            self.client.enqueue_atomic([Mutation("work_orders", "create", self.name("c"), {}), good[0]])
        with self.assertRaises(errors.NotFound):
            self.client.record("work_orders", self.name("c"))

    def test_many_are_stored_in_their_order_and_once(self) -> None:
        def mutations() -> List[Mutation]:
            many = [Mutation("readings", "create", data={"n": number}) for number in range(1000)]
            many[500] = Mutation("readings", "update", "x", {"n": 1})
            return many

        first = list(self.client.enqueue_many(iter(mutations()), key_prefix=self.name("")))
        second = list(self.client.enqueue_many(mutations(), key_prefix=self.name("")))
        for results in [first, second]:
            self.assertEqual([it.number for it in results], list(range(1, 1001)))
            self.assertEqual([it.number for it in results if it.error], [501])
        self.assertIsInstance(first[500].error, errors.ValidationFailed)
        self.assertEqual([it.id for it in first], [it.id for it in second])
        self.assertEqual({it.is_repeat for it in second if not it.error}, {True})

    def test_a_change_of_what_was_read_is_refused_when_it_moved(self) -> None:
        etag = self.write("a", {"n": 1}).etag
        self.write("a", {"n": 2}, if_match=etag)
        with self.assertRaises(errors.PreconditionFailed) as caught:
            self.write("a", {"n": 3}, if_match=etag)
        present = self.client.record("work_orders", self.name("a"))
        self.assertEqual((caught.exception.etag, present.data), (present.etag, {"n": 2}))

    def test_one_that_waits_can_be_taken_back(self) -> None:
        with self.stand.paused():
            first = self.client.enqueue(Mutation("work_orders", "create", self.name("a"), {"n": 1}))
            second = self.write("a", {"n": 2}, coalesce=False)
            self.assertEqual(set(self.client.cancel(first.id)), {first.id, second.id})
            self.assertEqual(self.client.wait(second.id).outcome, Outcome.CANCELLED)
            self.assertEqual(self.client.cancel(first.id), (first.id,))
        done = self.write("b", {"n": 1})
        self.stand.sync()
        self.client.wait(done.id, timeout=PATIENCE)
        with self.assertRaises(errors.AlreadySent) as caught:
            self.client.cancel(done.id)
        self.assertIn(done.id, caught.exception.sentence)

    # MARK: Exactness

    def test_numbers_and_texts_arrive_as_they_were_sent(self) -> None:
        data = {
            "max": 2**63 - 1,
            "min": -(2**63),
            "more": 2**64,
            "odd": 2**53 + 1,
            "near": [2**63 - 2, -(2**63) + 1],
            "price": ExactFloat("1.10"),
            "tiny": 5e-324,
            "text": 'e\u0301 \u00e9 \ufeff \u2028 "\\/\x01\x7f',
            "": None,
        }
        receipt = self.write("a", data)
        self.assertEqual(receipt.data, data)
        self.stand.sync()
        self.client.wait(receipt.id).require_delivered()
        record = self.client.record("work_orders", self.name("a"))
        self.assertEqual(record.data, data)
        self.assertEqual(list(record.data), list(data))
        self.assertEqual(record.data["price"].source, "1.10")
        self.assertEqual(self.stand.hub_records("work_orders")[self.name("a")], data)

    def test_every_character_of_unicode_comes_back(self) -> None:
        points = [it for it in range(1, sys.maxunicode + 1) if not 0xD800 <= it <= 0xDFFF]
        texts = ["".join(map(chr, points[start : start + 25_000])) for start in range(0, len(points), 25_000)]
        mutations = [
            Mutation("inspections", "upsert", self.name(f"{number}"), {"text": text})
            for number, text in enumerate(texts)
        ]
        self.assertEqual([it.error for it in self.client.enqueue_many(mutations)], [None] * len(texts))
        for number, text in enumerate(texts):
            record = self.client.record("inspections", self.name(f"{number}"))
            self.assertTrue(record.data == {"text": text}, f"part {number} differs")

    # MARK: Reading

    def test_a_record_is_read_again_only_when_it_changed(self) -> None:
        # The etag changes when the hub has the change.
        with self.stand.paused():
            etag = self.write("a", {"n": 1}).etag
            self.assertIsNone(self.client.record_unless("work_orders", self.name("a"), etag))
            self.write("a", {"n": 2})
            self.assertEqual(self.client.record_unless("work_orders", self.name("a"), etag).data, {"n": 2})

    def test_views_of_a_record(self) -> None:
        receipt = self.write("a", {"n": 1})
        self.stand.sync()
        self.client.wait(receipt.id)
        with self.stand.paused():
            self.write("a", {"n": 2})
            both = self.client.record("work_orders", self.name("a"), view="both")
            self.assertEqual((both.data, both.base), ({"n": 2}, {"n": 1}))
            self.assertEqual(self.client.record("work_orders", self.name("a"), view="server").data, {"n": 1})

    def test_queries(self) -> None:
        kind = self.name("kind")
        mutations = [
            Mutation(
                "inspections",
                "upsert",
                self.name(f"{number:03}"),
                {"kind": kind, "n": number, "site": {"name": f"s-{number % 3}"}},
            )
            for number in range(450)
        ]
        self.assertTrue(all(it.error is None for it in self.client.enqueue_many(mutations)))
        mine = field("kind").eq(kind)

        def numbers(condition: Any, **options: Any) -> List[int]:
            return [it.data["n"] for it in self.client.records("inspections", condition, **options)]

        self.assertEqual(numbers(mine, sort=["n"]), list(range(450)))
        self.assertEqual(numbers(mine & field("n").lt(3), sort=["-n"]), [2, 1, 0])
        self.assertEqual(numbers(all_of(mine, any_of(field("n").eq(7), field("n").ge(449))), sort=["n"]), [7, 449])
        self.assertEqual(numbers(mine & field("site.name").prefix("s-1") & field("n").le(4), sort=["n"]), [1, 4])
        self.assertEqual(numbers(mine & field("n").one_of([3, 5, 1000]), sort=["n"]), [3, 5])
        self.assertEqual(numbers(mine & field("n").gt(447) & field("gone").exists(False), sort=["n"]), [448, 449])
        self.assertEqual(numbers(mine & field("n").ne(0), sort=["n"])[0], 1)
        part = next(iter(self.client.records("inspections", mine & field("n").eq(4), fields=["site.name"])))
        self.assertEqual(part.data, {"site": {"name": "s-1"}})
        self.client.enqueue(Mutation("inspections", "delete", self.name("000")))
        self.assertEqual(len(numbers(mine)), 449)
        self.assertEqual(
            {it.sync_status for it in self.client.records("inspections", mine, sync_status=["synced", "pending"])}
            - {"synced", "pending"},
            set(),
        )
        with self.assertRaises(errors.UnknownEntity) as caught:
            list(self.client.records("inspection"))
        self.assertIn("Did you mean inspections?", str(caught.exception))
        with self.assertRaises(errors.ValidationFailed):
            list(self.client.records("inspections", field("n").lt(True)))

    def test_what_the_agent_says_of_itself(self) -> None:
        receipt = self.write("a", {"n": 1})
        status = self.client.status()
        self.assertEqual((status.device, status.raw["schema"]), ("stand", "status/1"))
        self.assertGreaterEqual(status.enqueued, 1)
        self.assertEqual(self.client.why(receipt.id).id, receipt.id)
        self.assertTrue(self.client.why(receipt.id).sentence)
        self.assertIn(self.client.ready().is_ready, (True, False))
        kinds = {it.name: it.kind for it in self.client.entities()}
        self.assertEqual((kinds["work_orders"], kinds["readings"]), ("record", "event"))
        mine = list(self.client.mutations(entity="work_orders", record_id=self.name("a"), app="me"))
        self.assertEqual([it.id for it in mine], [receipt.id])
        with self.assertRaises(errors.NotFound):
            self.client.why("nothing")

    # MARK: Outcomes

    def test_delivered(self) -> None:
        receipts = [self.write(f"{number}", {"n": number}) for number in range(10)]
        waited = self.client.wait_many([it.id for it in receipts], timeout=PATIENCE)
        self.stand.sync()
        items = list(waited)
        self.assertEqual({it.outcome for it in items}, {Outcome.DELIVERED})
        self.assertEqual({it.id for it in items}, {it.id for it in receipts})

    def test_rejected(self) -> None:
        receipt = self.client.enqueue(Mutation("orders", "create", self.name("a"), {"n": 1}))
        self.stand.sync()
        item = self.client.wait(receipt.id, timeout=PATIENCE)
        self.assertEqual(item.outcome, Outcome.REJECTED)
        with self.assertRaises(errors.NotDelivered) as caught:
            item.require_delivered()
        self.assertEqual(caught.exception.code, item.problem.code)
        self.assertIn(f"agentctl rejected show {receipt.id}", caught.exception.next_step)
        self.assertIn(receipt.id, [it.id for it in self.client.mutations(state=["rejected"])])
        again = self.client.retry(receipt.id, {"n": 2})
        self.assertNotEqual(again.id, receipt.id)
        self.stand.sync()
        self.client.discard(self.client.wait(again.id, timeout=PATIENCE).id, "not ours")
        self.assertEqual(self.client.wait(again.id).outcome, Outcome.DISCARDED)

    def test_undo(self) -> None:
        with self.stand.paused():
            first = self.client.enqueue(Mutation("work_orders", "create", self.name("u"), {"status": "open"}))
            with self.assertRaises(errors.NotAccepted):
                self.client.undo(first.id)
        self.stand.sync()
        self.client.wait(first.id, timeout=PATIENCE).require_delivered()
        trial = self.client.undo(first.id, dry_run=True)
        self.assertIsNone(trial.mutation)
        self.assertEqual(trial.fields, ())
        undone = self.client.undo(first.id)
        assert undone.mutation is not None
        self.assertTrue(self.client.record("work_orders", self.name("u")).is_deleted)
        with self.assertRaises(errors.AlreadyUndone) as caught:
            self.client.undo(first.id)
        self.assertEqual(caught.exception.members["by"], undone.mutation.id)

    def test_a_conflict_is_seen_and_decided(self) -> None:
        first = self.write("a", {"finding": "open"})
        self.stand.sync()
        self.client.wait(first.id, timeout=PATIENCE).require_delivered()
        # The office writes while the device is away, and both mean the same field.
        self.stand.stop_hub()
        receipt = self.write("a", {"finding": "fail"}, author="ines")
        self.stand.publish("work_orders", self.name("a"), {"finding": "pass"})
        self.stand.start_hub()
        self.stand.sync()
        item = self.client.wait(receipt.id, timeout=PATIENCE)
        self.assertEqual(item.outcome, Outcome.CONFLICT)
        conflict = next(it for it in self.client.conflicts(entity="work_orders") if it.record_id == self.name("a"))
        side = conflict.fields[0]
        self.assertEqual(
            (side.name, side.local.value, side.local.author, side.remote.value), ("finding", "fail", "ines", "pass")
        )
        self.assertEqual(self.client.record("work_orders", self.name("a")).conflict, conflict.id)
        with self.assertRaises(errors.VersionMismatch):
            self.client.resolve_conflict(conflict.id, "local", expect_remote_version=999)
        decision = self.client.resolve_conflict(
            conflict.id, "local", comment="seen on site", expect_remote_version=conflict.remote_version
        )
        self.stand.sync()
        self.assertEqual(self.client.wait(decision, timeout=PATIENCE).outcome, Outcome.DELIVERED)
        self.assertIn(self.client.conflict(conflict.id).state, ("resolved", "resolving"))
        self.assertEqual(self.stand.hub_records("work_orders")[self.name("a")]["finding"], "fail")
        with self.assertRaises(errors.AlreadyResolved):
            self.client.resolve_conflict(conflict.id, "remote")

    def test_a_wait_that_is_over_tells_the_state(self) -> None:
        with self.stand.paused():
            receipt = self.write("a", {"n": 1})
            with self.assertRaises(errors.DeadlinePassed) as caught:
                self.client.wait(receipt.id, timeout=3)
            sentence = f"the state of the mutation {receipt.id} is pending after 3 s"
            self.assertEqual(caught.exception.sentence, sentence)
            self.assertEqual(self.client.why(receipt.id).reason, "paused")

    # MARK: The agent itself

    def test_a_sync_is_started_and_waited_for(self) -> None:
        receipt = self.write("a", {"n": 1})
        done = self.client.sync(wait=True)
        self.assertEqual((done.result, done.deferred), ("ok", {}))
        self.assertTrue(done.cycle and done.bytes_up and done.bytes_down)
        self.client.wait(receipt.id, timeout=PATIENCE).require_delivered()
        queued = self.client.sync("push")
        self.assertIsNone(queued.result)
        self.assertEqual(self.client.sync("full", force=True, wait=True).result, "ok")
        with self.assertRaises(errors.ValidationFailed) as caught:
            self.client.sync("everything")
        self.assertEqual(caught.exception.field, "/scope")

    def test_a_pause_holds_everything_back_until_it_ends(self) -> None:
        until = datetime.datetime(2030, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        self.addCleanup(self.client.resume)
        paused = self.client.pause("maintenance", until=until)
        self.assertEqual((paused.is_paused, paused.reason, paused.uid), (True, "maintenance", os.geteuid()))
        self.assertEqual(paused.until, until)
        receipt = self.write("a", {"n": 1})
        with self.assertRaises(errors.Paused):
            self.client.sync(force=True)
        why = self.client.why(receipt.id)
        self.assertEqual((why.cause, why.command), ("paused", "agentctl resume"))
        self.assertTrue(why.rule and why.situation and why.situation.is_paused)
        waits = next(it for it in self.client.plan().would_defer if it.traffic_class == "normal")
        self.assertEqual((waits.reason, waits.cause, waits.command), ("paused", "paused", "agentctl resume"))
        self.assertGreater(waits.bytes, 0)
        self.assertIsNone(self.client.pause().until)
        resumed = self.client.resume()
        self.assertEqual((resumed.is_paused, resumed.until, resumed.reason, resumed.uid), (False, None, "", None))
        verbs = [(it.verb, it.details.get("reason")) for it in self.client.audit() if it.uid == os.geteuid()]
        self.assertIn(("pause", "maintenance"), verbs)
        with self.assertRaises(errors.InvalidArgument):
            self.client.pause(until=datetime.datetime(2030, 1, 1))

    def test_a_plan_is_made_for_any_situation(self) -> None:
        self.stand.agentctl("links", "hint", "lo", "--metered")
        self.addCleanup(self.stand.agentctl, "links", "hint", "lo", "--clear")
        receipt = self.write("a", {"n": 1}, priority="bulk")
        waits = next(it for it in self.client.plan().would_defer if it.traffic_class == "bulk")
        self.assertEqual((waits.reason, waits.count), ("metered", 1))
        plan = self.client.plan(
            link="lo", metered=False, roaming=False, battery=80, charging=True, budget="5MB", online=True
        )
        facts = plan.situation
        self.assertEqual((facts.uplink, facts.is_metered, facts.is_roaming), ("lo", False, False))
        self.assertEqual((facts.battery_percent, facts.budget_left_bytes), (80, 5_000_000))
        sent = next(it for it in plan.would_send if it.traffic_class == "bulk")
        self.assertEqual([it.id for it in sent.items], [receipt.id])
        self.assertEqual((sent.count, sent.bytes), (1, waits.bytes))
        self.assertGreaterEqual(plan.bytes_total, sent.bytes)
        with self.assertRaises(errors.ValidationFailed) as caught:
            self.client.plan(battery=101)
        self.assertEqual(caught.exception.field, "/battery")

    def test_links_and_usage(self) -> None:
        self.stand.sync()
        links = self.client.links()
        link = next(it for it in links.items if it.name == links.uplink)
        self.assertEqual((link.name, link.kind, link.is_metered, link.is_roaming), ("lo", "loopback", False, False))
        today = datetime.datetime.now(datetime.timezone.utc).date()
        usage = self.client.usage(link="lo", first_day=today - datetime.timedelta(days=1), last_day=today.isoformat())
        self.assertEqual({it.link for it in usage.items}, {"lo"})
        self.assertGreater(sum(it.up for it in usage.items if it.period == today.isoformat()), 0)
        month = self.client.usage(by="month")
        self.assertIn(today.isoformat()[:7], [it.period for it in month.items])
        self.assertEqual(self.client.usage(link="wwan7").items, ())
        with self.assertRaises(errors.Malformed):
            self.client.usage(by="year")
        with self.assertRaises(errors.InvalidArgument):
            self.client.usage(first_day=datetime.datetime.now())

    def test_the_configuration_is_read_and_read_again(self) -> None:
        configuration = self.client.configuration()
        device, pin = configuration.values["hub.device"], configuration.values["hub.pin"]
        self.assertEqual((device.value, device.origin), ("stand", "file"))
        self.assertTrue(device.place and device.place.endswith("agentd.yaml:1"))
        self.assertEqual((pin.value, pin.origin, pin.place), (None, "default", None))
        self.assertGreater(configuration.version, 0)
        file = f"{self.stand.folder}/agentd.yaml"
        with open(file) as before:
            text = before.read()

        def write(new: str) -> None:
            with open(file, "w") as after:
                after.write(new)

        self.addCleanup(write, text)
        self.assertEqual(self.client.reload_configuration(), ((), ()))
        write(text.replace("max_backoff: 1s", "max_backoff: 2s"))
        self.assertEqual(self.client.reload_configuration(), (("sync.max_backoff",), ()))
        write(text.replace("max_backoff", "max_backof"))
        with self.assertRaises(errors.ValidationFailed):
            self.client.reload_configuration()
        self.assertEqual(self.client.configuration().values["sync.max_backoff"].value, "2s")
        write(text)
        self.client.reload_configuration()

    def test_the_audit_trail_goes_on_behind_a_decision(self) -> None:
        before = [it.number for it in self.client.audit()]
        # More than one page.
        for _ in range(110):
            self.client.pause("again")
            self.client.resume()
        following = list(self.client.audit(after=before[-1] if before else None))
        self.assertEqual([it.verb for it in following], ["pause", "resume"] * 110)
        self.assertEqual([it.number for it in self.client.audit()], before + [it.number for it in following])

    def test_a_query_is_explained(self) -> None:
        self.write("a", {"status": self.name("open")})
        condition = field("status").eq(self.name("open"))
        explained = self.client.explain("work_orders", condition, sort=["status"])
        self.assertEqual((explained.entity, explained.found, explained.is_cut_off), ("work_orders", 1, False))
        self.assertEqual(len(list(self.client.records("work_orders", condition, sort=["status"]))), 1)
        self.assertIn(explained.way, ("id", "index", "open_mutations", "scan"))
        with self.assertRaises(errors.ValidationFailed):
            self.client.explain("work_orders", field("status").prefix(""), sort=["a", "b", "c", "d", "e"])

    def test_entities_tell_their_merge_rules(self) -> None:
        entity = next(it for it in self.client.entities() if it.name == "work_orders")
        self.assertEqual((entity.strategy, entity.field_strategies), ("fields", {"finding": "manual", "peak": "max"}))

    # MARK: The feed

    def test_changes_are_told(self) -> None:
        events = self.client.follow(["record", "mutation"], entity="inspections")
        start = next(events)
        self.assertIsInstance(start, Reload)
        self.assertFalse(start.is_gap)
        self.write("other", {"n": 1})
        # A verdict of the hub would be another event, and change what the second reader is told of the record.
        with self.stand.paused():
            receipt = self.client.enqueue(Mutation("inspections", "upsert", self.name("a"), {"n": 1}))
            seen = [next(events), next(events)]
            events.close()
            # A second reader gets the same from that position.
            again = self.client.follow(["record", "mutation"], entity="inspections", after=start.position)
            self.assertEqual([next(again), next(again)], seen)
            again.close()
        mutation = next(it for it in seen if isinstance(it, MutationChanged))
        record = next(it for it in seen if isinstance(it, RecordChanged))
        self.assertEqual((mutation.id, mutation.state, mutation.seq), (receipt.id, "pending", receipt.seq))
        self.assertEqual((record.id, record.is_remote, record.is_deletion), (self.name("a"), False, False))

    def test_a_position_that_is_not_kept_asks_for_a_reload(self) -> None:
        events = self.client.follow(["record"], after=2**62)
        event = next(events)
        self.assertIsInstance(event, Reload)
        self.assertTrue(event.is_gap)
        self.write("a", {"n": 1})
        # Events of other tests may come as well.
        following = next(it for it in events if it.id == self.name("a"))
        self.assertGreater(following.position, event.position)
        events.close()

    def test_a_feed_of_what_does_not_exist_is_refused(self) -> None:
        with self.assertRaises(errors.Malformed):
            next(self.client.follow(["weather"]))

    # MARK: Files

    def test_a_file_by_each_way_is_the_same_file(self) -> None:
        content = os.urandom(3_000_000)
        path = f"{IMPORTS}/{self.name('photo.jpg')}"
        with open(path, "wb") as file:
            file.write(content)
        self.addCleanup(os.remove, path)
        blob = self.client.add_blob(path)
        self.assertEqual((blob.size, blob.type, blob.filename), (len(content), "image/jpeg", os.path.basename(path)))
        self.assertEqual(blob.digest, "sha256:" + hashlib.sha256(content).hexdigest())
        self.assertEqual(self.client.add_blob(path, by="stream").id, blob.id)
        self.assertEqual(self.client.add_blob(path, by="path").id, blob.id)
        self.assertEqual(self.client.add_blob_stream(content, "photo.jpg").id, blob.id)
        with open(path, "rb") as file:
            self.assertEqual(self.client.add_blob_stream(file, "photo.jpg").id, blob.id)
            self.assertEqual(self.client.add_blob_descriptor(file.fileno(), "photo.jpg").id, blob.id)
        self.assertEqual(b"".join(self.client.read_blob(blob.id)), content)
        self.assertIn(blob.id, [it.id for it in self.client.blobs()])

    def test_a_record_shows_a_file_and_the_hub_gets_it(self) -> None:
        self.write("a", {"n": 1})
        path = f"{IMPORTS}/{self.name('note.txt')}"
        with open(path, "w") as file:
            file.write("crack at the third bolt " + self.name("x"))
        self.addCleanup(os.remove, path)
        blob, receipt = self.client.attach("work_orders", self.name("a"), "note", path, key=self.name("key"))
        self.assertEqual(receipt.data["note"]["$blob"], blob.digest)
        _, repeat = self.client.attach("work_orders", self.name("a"), "note", path, key=self.name("key"))
        self.assertTrue(repeat.is_repeat)
        self.stand.sync()
        self.client.wait(receipt.id, timeout=PATIENCE).require_delivered()
        until("the file is uploaded", lambda: self.client.blob(blob.id).state == "uploaded")
        uploaded = self.client.blob(blob.id)
        # A file that did not fail is shown unchanged.
        self.assertEqual(self.client.retry_blob(blob.id).state, "uploaded")
        self.assertEqual((uploaded.is_verified, uploaded.links[0].field), (True, "note"))

    def test_files_that_cannot_be_added(self) -> None:
        with self.assertRaises(errors.ValidationFailed):
            self.client.add_blob("/etc/passwd", by="path")
        with self.assertRaises(errors.ValidationFailed):
            self.client.add_blob_stream(b"", "empty")
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        self.addCleanup(os.close, writing)
        with self.assertRaises(errors.ValidationFailed):
            self.client.add_blob_descriptor(reading, "pipe")
        with self.assertRaises(errors.Malformed):
            self.client.add_blob_stream(b"x", "a/b")
        with self.assertRaises(errors.NotFound):
            self.client.blob("b-999999")
        with self.assertRaises(errors.NotFound):
            list(self.client.read_blob("b-999999"))
        with self.assertRaises(errors.Malformed):
            self.client.blob("photo")


AsyncAgentTests = for_asyncio(AgentTests)


if __name__ == "__main__":
    unittest.main()
