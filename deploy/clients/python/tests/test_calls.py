"""The calls of the API, performed by a script: what is sent, what is tried again, and when."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import unittest
from base64 import b64encode
from typing import Any, Callable, Dict, List, Union

from script import CUT, SILENCE, Asked, Reply, Script, answer, chunk, feed, problem

from edgesync import (
    AsyncClient,
    Client,
    FieldError,
    FormCounts,
    FormSection,
    Mutation,
    NamedForm,
    Outcome,
    Reload,
    errors,
)
from edgesync.core import answers, limits, operations, requests
from edgesync.core.effects import Connect, ConnectFailure, Pause
from edgesync.core.files import BlobName, read_blob
from edgesync.core.operations import add_blob, enqueue, enqueue_many, follow, wait

ORDER = Mutation("work_orders", "upsert", "wo-1", {"status": "done"}, key="inspection-7781")
STORED = {
    "id": "m-1",
    "seq": 1,
    "state": "pending",
    "record": {
        "entity": "work_orders",
        "id": "wo-1",
        "version": 0,
        "sync_status": "pending",
        "etag": '"1"',
        "data": {},
    },
}


class EnqueueTests(unittest.TestCase):
    def enqueue(self, script: Script, mutation: Mutation = ORDER) -> Any:
        return script.run(enqueue(script.session, mutation, None))[0]

    def test_a_pause_that_takes_too_long_does_not_hide_why_there_is_no_answer(self) -> None:
        script = Script()
        steps = enqueue(script.session, ORDER, 1.0)
        result: Any = None
        with self.assertRaises(errors.Unreachable):
            while True:
                effect = steps.send(result)
                script.now += 5.0 if isinstance(effect, Pause) else 0.0
                result = ConnectFailure(errno.ECONNREFUSED, "") if isinstance(effect, Connect) else None

    def test_a_mutation_is_sent_once_and_the_connection_is_kept(self) -> None:
        script = Script(answer(201, STORED), answer(200, STORED))
        first, second = self.enqueue(script), self.enqueue(script)
        self.assertEqual((first.is_repeat, second.is_repeat), (False, True))
        self.assertEqual(
            script.asked[0].json,
            {"entity": "work_orders", "record_id": "wo-1", "action": "upsert", "data": {"status": "done"}},
        )
        self.assertEqual((len(script.connections), script.pauses), (1, []))

    def test_a_retry_has_the_same_key_and_the_same_bytes(self) -> None:
        script = Script(
            CUT,
            errno.ECONNREFUSED,
            [answer(201, STORED)[:-5], CUT],
            problem(503, "starting", retry_after=1),
            problem(503, "busy"),
            answer(200, STORED),
        )
        self.assertTrue(self.enqueue(script, Mutation("work_orders", "create")).is_repeat)
        self.assertEqual(
            {(it.fields["idempotency-key"], it.body) for it in script.asked}, {("key-1", script.asked[0].body)}
        )
        self.assertEqual(len(script.asked), 5)
        # 0.1, 0.2, 0.4 s at most, half of it at least; then Retry-After and a tenth.
        self.assertEqual([round(it, 3) for it in script.pauses], [0.075, 0.15, 0.3, 1.1, 1.2])

    def test_a_mistake_is_not_tried_again(self) -> None:
        script = Script(
            problem(422, "validation", "/action must be one of …", errors=[{"pointer": "/action", "detail": "must be"}])
        )
        with self.assertRaises(errors.ValidationFailed) as caught:
            self.enqueue(script)
        error = caught.exception
        self.assertEqual(
            (error.code, error.sentence, error.field, error.status),
            ("validation", "/action must be one of …", "/action", 422),
        )
        self.assertEqual((error.doing, script.pauses), ("POST /v1/mutations", []))

    def test_a_code_of_a_newer_agent_is_a_refusal(self) -> None:
        with self.assertRaises(errors.Refused) as caught:
            self.enqueue(Script(problem(409, "brand-new", "so it is", colour="red")))
        self.assertEqual((caught.exception.code, caught.exception.members), ("brand-new", {"colour": "red"}))

    def test_the_deadline_ends_the_tries_with_the_last_error(self) -> None:
        script = Script(*[errno.ECONNREFUSED] * 100)
        with self.assertRaises(errors.Unreachable) as caught:
            self.enqueue(script)
        self.assertIn("no agent listens at the socket /agent.sock", str(caught.exception))
        self.assertLess(sum(script.pauses), 30)
        self.assertGreater(sum(script.pauses), 20)

    def test_a_wrong_path_is_told_after_two_seconds(self) -> None:
        script = Script(*[errno.ENOENT] * 100)
        with self.assertRaises(errors.NoSocket):
            self.enqueue(script)
        self.assertTrue(2 <= sum(script.pauses) < 5)

    def test_no_permission_is_told_at_once(self) -> None:
        script = Script(errno.EACCES)
        with self.assertRaises(errors.SocketNotPermitted):
            self.enqueue(script)
        self.assertEqual(script.pauses, [])

    def test_an_agent_that_is_silent_is_asked_until_the_deadline(self) -> None:
        script = Script(SILENCE, SILENCE)
        with self.assertRaises(errors.DeadlinePassed):
            self.enqueue(script)
        self.assertAlmostEqual(script.now, 1030)

    def test_a_deadline_within_a_later_try_names_the_failure_of_the_try_before(self) -> None:
        script = Script([answer(201, STORED)[:-1], CUT], SILENCE)
        with self.assertRaises(errors.DeadlinePassed) as caught:
            self.enqueue(script)
        self.assertEqual(
            caught.exception.sentence,
            "there was no answer within 30 s; the try before it failed: the agent closed the connection within its answer",
        )

    def test_a_connection_that_the_agent_closed_meanwhile_is_no_failure(self) -> None:
        script = Script(answer(201, STORED), CUT, answer(200, STORED))
        self.enqueue(script)
        self.enqueue(script)
        self.assertEqual((script.pauses, len(script.connections)), ([], 2))

    def test_a_refusal_while_the_request_is_sent_is_read(self) -> None:
        class Early(Script):
            def _transfer(self, effect: Any) -> Any:
                connection = effect.connection
                if effect.data and not connection.written:
                    connection.replies = [problem(413, "too-large", "too large")]
                    connection.written = b"x"
                    return super()._transfer(type(effect)(connection, b"", effect.timeout))
                return super()._transfer(effect)

        script = Early()
        with self.assertRaises(errors.TooLarge):
            self.enqueue(script, Mutation("work_orders", "create", data={"x": "y" * 10_000}))
        self.assertEqual(script.idle, [])

    def test_an_answer_that_lacks_something_is_refused(self) -> None:
        for body in [{}, {**STORED, "id": 7}, {**STORED, "seq": 2**63}, {**STORED, "record": None}, [], "x"]:
            with self.subTest(body), self.assertRaises(errors.BadAnswer):
                self.enqueue(Script(answer(201, body)))
        with self.assertRaises(errors.BadAnswer):
            self.enqueue(Script(answer(201, STORED, kind="text/html")))

    def test_a_retry_says_what_it_replaces_and_leaves_out(self) -> None:
        script = Script(answer(201, STORED))
        script.run(operations.retry(script.session, "m-1", {"n": 2}, ("legacy",), True, None))
        self.assertEqual(script.asked[0].json, {"data": {"n": 2}, "without": ["legacy"], "cascade": True})

    def test_what_may_not_be_repeated_is_not(self) -> None:
        calls: List[Callable[[Any], Any]] = [
            lambda session: operations.retry(session, "m-1", None, (), False, None),
            lambda session: operations.discard(session, "m-1", "", None),
            lambda session: operations.resolve_conflict(session, "c-1", "local", None, None, None, None, None),
        ]
        for call in calls:
            script = Script(problem(503, "busy"), CUT)
            with self.assertRaises(errors.BrokenAnswer):
                script.run(call(script.session))
            self.assertEqual(len(script.asked), 2)


class SchemaTests(unittest.TestCase):
    """Versions of schemas: in the head of each request, and in a mutation."""

    def script(self, *replies: Reply, schemas: Any = None) -> Script:
        script = Script(*replies)
        script.session.fields = requests.schema_fields(schemas)
        return script

    def test_every_request_names_the_versions_of_the_app(self) -> None:
        lines = b'{"line":1,"id":"m-1","state":"pending"}\n{"summary":{"accepted":1,"failed":0}}\n'
        script = self.script(
            answer(201, STORED),
            problem(503, "busy"),
            answer(201, STORED),
            answer(200, {"items": [], "next": None}),
            answer(200, lines, kind="application/x-ndjson"),
            schemas={"sites": 12, "audits": 1, "Z": 1_000_000},
        )
        for _ in range(2):
            script.run(enqueue(script.session, ORDER, None))
        script.run(operations.records(script.session, "audits", None, [], [], False, [], None))
        script.run(enqueue_many(script.session, None, None), [ORDER])
        self.assertEqual({it.fields["schema"] for it in script.asked}, {"Z=1000000, audits=1, sites=12"})
        self.assertEqual(script.asked[0].fields["idempotency-key"], "inspection-7781")
        self.assertEqual(len(script.asked), 5)

    def test_a_feed_and_a_file_name_them_too(self) -> None:
        events = self.script([feed("id: 7\n\n")], schemas={"audits": 1})
        events.run(follow(events.session, [], None, None, None), limit=1)
        digest = repr_digest(b"x")
        content = self.script(
            answer(200, b"x", fields=[("Repr-Digest", digest)], kind="image/jpeg"), schemas={"audits": 1}
        )
        content.run(read_blob(content.session, "b-1", 0, None))
        self.assertEqual([it.fields.get("schema") for it in events.asked + content.asked], ["audits=1", "audits=1"])

    def test_an_app_that_names_none_sends_no_field(self) -> None:
        nothing: List[Any] = [None, {}]
        for schemas in nothing:
            script = self.script(answer(201, STORED), schemas=schemas)
            script.run(enqueue(script.session, ORDER, None))
            self.assertNotIn("schema", script.asked[0].fields)

    def test_what_the_agent_could_not_read_is_refused_before_there_is_a_client(self) -> None:
        odd: List[Any] = [{"audits": version} for version in (0, -1, 1_000_001, 1.0, "1", True, None)]
        odd += [{name: 1} for name in ("", "a=b", "a,b", "a b", "audits\r\nX: y", "audits\n", "\u00e9", "a" * 65, 7)]
        odd.append({f"e-{number}": 1 for number in range(101)})
        for schemas in odd:
            for kind in (Client, AsyncClient):
                with self.subTest(schemas), self.assertRaises(errors.InvalidArgument):
                    kind("/nowhere.sock", schemas=schemas)

    def test_the_longest_names_and_the_largest_versions_fit_into_one_head(self) -> None:
        schemas = {"a" * 61 + str(number + 100): 1_000_000 for number in range(100)}
        self.assertTrue(7_000 < len(requests.schema_fields(schemas)["Schema"]) <= 8_192)

    def test_a_mutation_may_name_its_own_version(self) -> None:
        mutation = Mutation("audits", "update", "a-1", {"site": "s-1"}, schema=3)
        lines = b'{"line":1,"id":"m-1","state":"pending"}\n{"summary":{"accepted":1,"failed":0}}\n'
        script = Script(
            answer(201, STORED),
            answer(201, {"results": [{**STORED, "form": "absent"}]}),
            answer(200, lines, kind="application/x-ndjson"),
        )
        self.assertIsNone(script.run(enqueue(script.session, mutation, None))[0].form)
        receipts = script.run(operations.enqueue_atomic(script.session, [mutation], None, None))[0]
        self.assertEqual([it.form for it in receipts], ["absent"])
        script.run(enqueue_many(script.session, None, None), [mutation])
        self.assertEqual(script.asked[0].json["schema"], 3)
        self.assertEqual(script.asked[1].json["mutations"][0]["schema"], 3)
        self.assertEqual(script.asked[2].lines[0]["schema"], 3)

    def test_a_version_that_is_not_accepted_is_a_refusal_with_its_place(self) -> None:
        script = Script(
            problem(422, "validation", "version 9 is newer", errors=[{"pointer": "/schema", "detail": "is newer"}])
        )
        with self.assertRaises(errors.ValidationFailed) as caught:
            script.run(operations.record(script.session, "audits", "a-1", "merged", False, None))
        self.assertEqual((caught.exception.code, caught.exception.field), ("validation", "/schema"))


class ProgressTests(unittest.TestCase):
    NUMBERS = {"questions": 3, "answered": 1, "required": 3, "missing": 2, "percent": 33}
    NONE = {"entity": "audits", "id": "a-1", "says_complete": True, "form": {"state": "none"}}
    JUDGED = {
        **NONE,
        **NUMBERS,
        "form": {"id": "doors", "version": "1", "state": "judged"},
        "title": "Fire doors",
        "complete": False,
        "sections": [
            {"id": "doors", "title": "Doors", "applies": True, **NUMBERS},
            {"id": "roof", "applies": False, **dict.fromkeys(NUMBERS, 0), "percent": 100},
        ],
        "holes": [{"pointer": "/reason", "detail": "is required"}, {"pointer": "/photos", "detail": "is required"}],
        "faults": [{"pointer": "/closes", "detail": "is no choice"}],
        "newer": 1,
    }

    def read(self, body: Any) -> Any:
        script = Script(answer(200, body))
        progress = script.run(operations.progress(script.session, "audits", "a-1", None))[0]
        self.assertEqual(script.asked[0][:2], ("GET", "/v1/records/audits/a-1/progress"))
        return progress

    def test_numbers_in_all_and_by_section(self) -> None:
        found = self.read(self.JUDGED)
        self.assertEqual((found.entity, found.id, found.title), ("audits", "a-1", "Fire doors"))
        self.assertEqual(found.form, NamedForm("judged", "doors", "1"))
        self.assertEqual((found.says_complete, found.is_complete, found.percent), (True, False, 33))
        self.assertEqual(found.counts, (3, 1, 3, 2, 33))
        self.assertEqual(
            found.sections,
            (
                FormSection("doors", "Doors", True, FormCounts(3, 1, 3, 2, 33)),
                FormSection("roof", None, False, FormCounts(0, 0, 0, 0, 100)),
            ),
        )
        self.assertEqual([it.pointer for it in found.holes], ["/reason", "/photos"])
        self.assertEqual(found.faults, (FieldError("/closes", "is no choice"),))
        self.assertEqual(found.raw["newer"], 1)

    def test_a_record_that_no_form_has_judged_has_no_numbers(self) -> None:
        found = self.read(self.NONE)
        self.assertEqual(found.form, NamedForm("none"))
        self.assertEqual(
            (found.says_complete, found.is_complete, found.counts, found.percent), (True, None, None, None)
        )
        self.assertEqual((found.title, found.sections, found.holes, found.faults), (None, (), (), ()))
        absent = self.read({**self.NONE, "form": {"id": "doors", "state": "absent", "reason": "it is not here"}})
        self.assertEqual(absent.form, NamedForm("absent", "doors", None, "it is not here"))

    def test_a_document_that_is_not_kept_is_told(self) -> None:
        script = Script(problem(409, "not-kept", "the document of audits/a-1 is not kept"))
        with self.assertRaises(errors.NotKept) as caught:
            script.run(operations.progress(script.session, "audits", "a-1", None))
        self.assertIn("agentctl get --fetch", caught.exception.next_step)

    def test_a_document_that_is_not_kept_is_fetched_on_request(self) -> None:
        script = Script(problem(503, "hub-unavailable", "the hub does not answer"))
        with self.assertRaises(errors.HubUnavailable):
            script.run(operations.record(script.session, "audits", "a-1", "merged", True, None))
        self.assertEqual([it.target for it in script.asked], ["/v1/records/audits/a-1?fetch=1"])

    def test_an_answer_that_lacks_something_is_refused(self) -> None:
        wrong: List[Dict[str, Any]] = [
            {},
            {**self.NONE, "form": None},
            {**self.NONE, "form": {}},
            {**self.NONE, "says_complete": None},
            {**self.NONE, "questions": 1},
            {**self.NONE, "complete": "no"},
            {**self.JUDGED, "percent": "33"},
            {**self.JUDGED, "sections": [{"id": "doors"}]},
        ]
        for body in wrong:
            with self.subTest(body), self.assertRaises(errors.BadAnswer):
                self.read(body)


class ManyTests(unittest.TestCase):
    def mutations(self, count: int) -> List[Mutation]:
        return [Mutation("readings", "create", data={"n": number}) for number in range(count)]

    @staticmethod
    def accept(asked: Asked, count: int = 10**9) -> bytes:
        lines: List[Dict[str, Any]] = [
            {"line": it + 1, "id": f"m-{line['idempotency_key']}", "state": "pending"}
            for it, line in enumerate(asked.lines[:count])
        ]
        if count >= len(asked.lines):
            lines.append({"summary": {"accepted": len(lines), "failed": 0}})
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    def reply(self, asked: Asked, count: int = 10**9) -> Reply:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
        body = head + chunk(self.accept(asked, count))
        return [body, CUT] if count < len(asked.lines) else [body[:200], body[200:] + b"0\r\n\r\n"]

    def test_batches_and_keys(self) -> None:
        script = Script(by=self.reply)
        _, results = script.run(enqueue_many(script.session, "import-", None), self.mutations(600))
        self.assertEqual([len(it.lines) for it in script.asked], [256, 256, 88])
        self.assertEqual([it.number for it in results], list(range(1, 601)))
        self.assertEqual(results[599].key, "import-600")
        self.assertEqual(results[599].id, "m-import-600")

    def test_what_was_answered_is_not_sent_again(self) -> None:
        counts = iter([100, 10, 0, 10**9])
        script = Script(by=lambda asked: self.reply(asked, next(counts)))
        _, results = script.run(enqueue_many(script.session, None, None), self.mutations(200))
        self.assertEqual([len(it.lines) for it in script.asked], [200, 100, 90, 90])
        self.assertEqual([it.key for it in results], [f"key-{number}" for number in range(1, 201)])
        self.assertEqual(script.asked[1].body, b"".join(script.asked[0].body.splitlines(True)[100:]))

    def test_a_bad_line_does_not_stop_the_others(self) -> None:
        script = Script(by=self.reply)
        mutations = [*self.mutations(1), Mutation("readings", "create", data={"x": float("nan")}), *self.mutations(1)]
        _, results = script.run(enqueue_many(script.session, None, None), mutations)
        self.assertEqual([it.error is None for it in results], [True, False, True])
        self.assertEqual(len(script.asked[0].lines), 2)

    def test_a_refused_line_is_a_result(self) -> None:
        body = b'{"line":1,"error":{"type":"urn:edge-sync:local:queue-full","status":507,"detail":"full"}}\n'
        body += b'{"line":2,"id":"m-2","state":"pending","repeat":true}\n{"summary":{"accepted":1,"failed":1}}\n'
        script = Script(answer(200, body, kind="application/x-ndjson"))
        _, results = script.run(enqueue_many(script.session, None, None), self.mutations(2))
        self.assertIsInstance(results[0].error, errors.QueueFull)
        self.assertEqual((results[1].id, results[1].is_repeat), ("m-2", True))

    def test_answers_that_belong_to_no_line_are_refused(self) -> None:
        for body in [
            b'{"line":2,"id":"m","state":"x"}\n',
            b'{"summary":{}}\n',
            b"nonsense\n",
            b"[]\n",
            b'{"line":1,"id":"m","state":"x"}\n' * 2,
        ]:
            script = Script(answer(200, body, kind="application/x-ndjson"))
            with self.subTest(body), self.assertRaises(errors.BadAnswer):
                script.run(enqueue_many(script.session, None, None), self.mutations(1))

    def test_what_was_stored_is_told_before_the_error(self) -> None:
        script = Script(by=lambda asked: self.reply(asked, 3) if len(asked.lines) == 5 else problem(403, "forbidden"))
        steps = enqueue_many(script.session, None, None)
        _, results = script.run(steps, self.mutations(5), limit=3)
        self.assertEqual([it.id for it in results], ["m-key-1", "m-key-2", "m-key-3"])
        with self.assertRaises(errors.Forbidden):
            script.run(steps)

    def test_nothing_is_sent_for_nothing(self) -> None:
        script = Script()
        self.assertEqual(script.run(enqueue_many(script.session, None, None), [])[1], [])


class FollowTests(unittest.TestCase):
    @staticmethod
    def record(position: int) -> str:
        data = (
            '{"entity":"work_orders","id":"wo-1","change":"upsert","source":"local","version":1,"sync_status":"synced"}'
        )
        return f"id: {position}\nevent: record\ndata: {data}\n\n"

    def follow(self, script: Script, limit: int, after: Any = None, give_up: Any = None) -> List[Any]:
        return script.run(follow(script.session, ["record"], None, after, give_up), limit=limit)[1]

    def test_a_feed_goes_on_where_it_broke(self) -> None:
        script = Script(
            [feed("id: 7\n\n"), CUT],
            errno.ECONNREFUSED,
            [feed(self.record(8), self.record(9)[:30]), CUT],
            [feed(self.record(9), "event: overflow\ndata: {}\n\n") + b"0\r\n\r\n"],
            [feed(self.record(9), self.record(10))],
        )
        events = self.follow(script, 4)
        self.assertEqual([it.position for it in events], [7, 8, 9, 10])
        self.assertEqual([it.fields.get("last-event-id") for it in script.asked], [None, "7", "8", "9"])
        self.assertIsInstance(events[0], Reload)

    def test_a_record_that_has_left_the_share_is_told_from_a_deleted_one(self) -> None:
        data = '{"entity":"e","id":"r","change":"delete",%s"source":"remote","version":0,"sync_status":"synced"}'
        reasons = ((8, ""), (9, '"reason":"revoked",'))
        texts = [f"id: {position}\nevent: record\ndata: {data % reason}\n\n" for position, reason in reasons]
        events = self.follow(Script([feed(*texts)]), 2, after=7)
        self.assertEqual([(it.is_deletion, it.is_revoked) for it in events], [(True, False), (True, True)])

    def test_a_position_that_is_too_old_asks_for_a_reload(self) -> None:
        script = Script([feed(":\n\n", "id: 90\nevent: reset\ndata: {}\n\n", self.record(91))])
        events = self.follow(script, 2, after=3)
        self.assertEqual((events[0].position, events[0].is_gap), (90, True))
        self.assertEqual(events[1].position, 91)

    def test_a_silent_feed_is_given_up_after_three_missed_comments(self) -> None:
        script = Script([feed("id: 7\n\n"), SILENCE], [feed(self.record(8))])
        self.follow(script, 2)
        self.assertAlmostEqual(script.now - sum(script.pauses), 1000 + limits.FEED_SILENCE_SECONDS)

    def test_a_feed_that_stood_comes_back_for_ever(self) -> None:
        script = Script([feed("id: 7\n\n"), CUT], *[errno.ENOENT] * 500, [feed(self.record(8))])
        self.assertEqual([it.position for it in self.follow(script, 2)], [7, 8])
        self.assertEqual(max(script.pauses), 3.75)

    def test_or_as_long_as_it_is_told(self) -> None:
        script = Script([feed("id: 7\n\n"), CUT], *[errno.ECONNREFUSED] * 500)
        steps = follow(script.session, [], None, None, 60.0)
        script.run(steps, limit=1)
        with self.assertRaises(errors.Unreachable):
            script.run(steps)
        self.assertTrue(50 < sum(script.pauses) <= 60)

    def test_a_feed_that_never_stood_ends_with_the_deadline(self) -> None:
        with self.assertRaises(errors.Unreachable):
            self.follow(Script(*[errno.ECONNREFUSED] * 500), 1)

    def test_a_refusal_ends_it(self) -> None:
        with self.assertRaises(errors.EntityNotAllowed):
            self.follow(Script(problem(403, "entity-not-allowed")), 1)

    def test_an_event_of_a_newer_agent_is_passed_on(self) -> None:
        script = Script([feed('id: 7\nevent: weather\ndata: {"rain":true}\n\n')])
        event = self.follow(script, 1, after=6)[0]
        self.assertEqual((event.type, event.raw), ("weather", {"rain": True}))


class WaitTests(unittest.TestCase):
    """The mutation ``m-1`` changes its state as the script says; the feed is given out block by block."""

    def item(self, id: str, state: str, **more: Any) -> bytes:
        return answer(
            200,
            {
                "id": id,
                "seq": 1,
                "entity": "e",
                "record_id": "r",
                "action": "create",
                "state": state,
                "priority": "normal",
                "attempts": 0,
                **more,
            },
        )

    @staticmethod
    def changed(position: int, id: str, state: str) -> str:
        data = f'{{"id":"{id}","seq":1,"state":"{state}","entity":"e","record_id":"r"}}'
        return f"id: {position}\nevent: mutation\ndata: {data}\n\n"

    def wait(self, script: Script, *ids: str, timeout: float = 60.0) -> List[Any]:
        return script.run(wait(script.session, ids, timeout))[1]

    def test_one_that_has_come_to_rest_needs_no_feed(self) -> None:
        script = Script(self.item("m-1", "done"))
        self.assertEqual(self.wait(script, "m-1")[0].outcome, Outcome.DELIVERED)
        self.assertEqual(len(script.asked), 1)

    def test_the_feed_says_when_to_look(self) -> None:
        states = {
            "m-1": iter(["pending", "pending", "in_flight", "done"]),
            "m-2": iter(["pending", "pending", "rejected"]),
        }

        def by(asked: Asked) -> Reply:
            if asked.target.startswith("/v1/events"):
                return [
                    feed("id: 7\n\n"),
                    chunk(self.changed(8, "m-1", "in_flight") + self.changed(9, "other", "done")),
                    chunk(self.changed(10, "m-2", "rejected") + self.changed(11, "m-1", "done")),
                ]
            id = asked.target.rpartition("/")[2]
            return self.item(id, next(states[id]))

        script = Script(by=by)
        self.assertEqual([it.outcome for it in self.wait(script, "m-1", "m-2")], [Outcome.REJECTED, Outcome.DELIVERED])

    def test_one_that_was_merged_into_another_comes_to_rest_with_it(self) -> None:
        states = iter(["pending", "pending", "done"])

        def by(asked: Asked) -> Reply:
            if asked.target.startswith("/v1/events"):
                return [feed("id: 7\n\n"), chunk(self.changed(8, "m-0", "done"))]
            return self.item("m-1", next(states), into="m-0")

        self.assertEqual(self.wait(Script(by=by), "m-1")[0].outcome, Outcome.DELIVERED)

    def test_a_feed_that_broke_misses_nothing(self) -> None:
        states = iter(["pending", "pending", "done"])

        def by(asked: Asked) -> Reply:
            return [feed("id: 7\n\n"), CUT] if asked.target.startswith("/v1/events") else self.item("m-1", next(states))

        self.assertEqual(len(self.wait(Script(by=by), "m-1")), 1)

    def test_without_a_feed_it_asks_at_the_pace_of_the_agent(self) -> None:
        states = iter(["pending", "pending", "pending", "done"])

        def by(asked: Asked) -> Reply:
            if asked.target.startswith("/v1/events"):
                return problem(429, "rate", retry_after=5)
            return self.item("m-1", next(states))

        script = Script(by=by)
        self.wait(script, "m-1")
        self.assertEqual([round(it, 2) for it in script.pauses], [5.5, 5.5, 5.5])

    def test_the_timeout_tells_the_state(self) -> None:
        def by(asked: Asked) -> Reply:
            return [feed("id: 7\n\n")] if asked.target.startswith("/v1/events") else self.item("m-1", "pending")

        script = Script(by=by)
        with self.assertRaises(errors.DeadlinePassed) as caught:
            self.wait(script, "m-1", timeout=10)
        self.assertEqual(caught.exception.sentence, "the state of the mutation m-1 is pending after 10 s")
        self.assertAlmostEqual(script.now, 1010)

    def test_an_unknown_mutation_is_told(self) -> None:
        with self.assertRaises(errors.NotFound) as caught:
            self.wait(
                Script(problem(404, "not-found", "there is no mutation m-1", list="agentctl mutations list")), "m-1"
            )
        self.assertEqual(caught.exception.next_step, "see what is there: agentctl mutations list")

    def test_an_outcome_can_be_required(self) -> None:
        script = Script(
            self.item(
                "m-1",
                "rejected",
                problem={
                    "code": "validation",
                    "detail": "must be open",
                    "errors": [{"pointer": "/data/status", "detail": "no"}],
                },
            )
        )
        item = self.wait(script, "m-1")[0]
        with self.assertRaises(errors.NotDelivered) as caught:
            item.require_delivered()
        error = caught.exception
        self.assertEqual((error.code, error.field), ("validation", "/data/status"))
        self.assertEqual(error.sentence, "the mutation m-1 is rejected: must be open")


class PageTests(unittest.TestCase):
    def record(self, id: str) -> Dict[str, Any]:
        return {
            "entity": "e",
            "id": id,
            "version": 1,
            "sync_status": "synced",
            "deleted": False,
            "etag": "x",
            "data": {},
        }

    def records(self, script: Script) -> List[Any]:
        steps = operations.records(script.session, "e", None, [], [], False, [], None)
        return script.run(steps)[1]

    def test_pages_follow_each_other(self) -> None:
        script = Script(
            answer(200, {"items": [self.record("a"), self.record("b")], "next": "x"}),
            answer(200, {"items": [self.record("c")], "next": None}),
        )
        self.assertEqual([it.id for it in self.records(script)], ["a", "b", "c"])
        self.assertEqual(script.asked[1].json["cursor"], "x")

    def test_a_page_that_leads_to_itself_is_refused(self) -> None:
        page = answer(200, {"items": [], "next": "x"})
        with self.assertRaises(errors.BadAnswer):
            self.records(Script(page, page))

    def test_an_unknown_entity_is_told(self) -> None:
        with self.assertRaises(errors.UnknownEntity):
            self.records(
                Script(answer(200, {"items": [], "next": None, "unknown_entity": "This device does not know it."}))
            )

    def test_an_answer_beyond_the_limit_is_refused(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        script = Script([head, *[b" " * 65536] * (limits.ANSWER_BYTES // 65536 + 1)])
        with self.assertRaises(errors.BadAnswer):
            self.records(script)


class OperationTests(unittest.TestCase):
    SITUATION = {
        "reachability": "online",
        "uplink": "wwan0",
        "metered": True,
        "roaming": False,
        "power": "saver",
        "budget": "soft",
        "paused": False,
        "breaker_open": False,
        "window_open": True,
        "retry_at": "2026-11-21T06:00:00.000Z",
    }

    def test_the_audit_trail_has_pages(self) -> None:
        entry = {"n": 7, "at": "2026-11-21T06:00:00.000Z", "uid": 0, "verb": "pause", "target": "", "json": None}
        script = Script(answer(200, {"items": [entry], "next": 7}), answer(200, {"items": [{**entry, "n": 8}]}))
        _, found = script.run(operations.audit(script.session, 6, None))
        self.assertEqual([(it.number, it.details) for it in found], [(7, {}), (8, {})])
        self.assertEqual(
            [it.target for it in script.asked], ["/v1/audit?after=6&limit=200", "/v1/audit?after=7&limit=200"]
        )

    def test_a_plan_names_only_what_it_was_told(self) -> None:
        body = {
            "would_send": [{"class": "normal", "count": 1, "bytes": 9, "items": [{"id": "m-1", "bytes": 9}]}],
            "would_defer": [],
            "situation": self.SITUATION,
            "bytes_total": 9,
        }
        script = Script(answer(200, body), answer(200, body))
        for metered in (None, False):
            steps = operations.plan(script.session, "wwan0", metered, None, None, None, 0, None, None)
            result = script.run(steps)[0]
            self.assertEqual(result.would_send[0].items, (("m-1", 9),))
            self.assertEqual(result.situation.retry_at.isoformat(), "2026-11-21T06:00:00+00:00")
        self.assertEqual(
            [it.json for it in script.asked],
            [{"link": "wwan0", "budget": 0}, {"link": "wwan0", "metered": False, "budget": 0}],
        )

    def test_budgets_of_links(self) -> None:
        budget = {"day": {"used": 1, "limit": 2, "level": "soft", "resets_at": "2026-11-22T00:00:00.000Z"}}
        link = {"name": "wwan0", "state": "reachable", "metered": True, "roaming": False, "last_probe": None}
        script = Script(
            answer(200, {"items": [{**link, "budget": budget}], "uplink": None}),
            answer(200, {"items": [], "budgets": {"wwan0": budget}, "by": "day"}),
        )
        links = script.run(operations.links(script.session, None))[0]
        usage = script.run(operations.usage(script.session, None, None, None, "day", None))[0]
        self.assertEqual(links.items[0].budgets, usage.budgets["wwan0"])
        self.assertEqual((usage.budgets["wwan0"]["day"].used, usage.budgets["wwan0"]["day"].level), (1, "soft"))

    def test_the_end_of_a_sync_is_waited_for_longer(self) -> None:
        script = Script(SILENCE)
        with self.assertRaises(errors.DeadlinePassed):
            script.run(operations.sync(script.session, "all", False, True, False, None))
        self.assertAlmostEqual(script.now, 1000 + limits.SYNC_SECONDS)
        self.assertEqual(script.asked[0].json, {"scope": "all", "wait": True})

    def test_a_reload_has_no_body(self) -> None:
        script = Script(answer(200, {"changed": ["sync.max_backoff"], "restart_needed": []}))
        change = script.run(operations.reload_configuration(script.session, None))[0]
        self.assertEqual(change.changed, ("sync.max_backoff",))
        self.assertEqual((script.asked[0].body, "content-type" in script.asked[0].fields), (b"", False))

    def test_answers_that_lack_something_are_refused(self) -> None:
        calls: List[Callable[[Any], Any]] = [
            lambda session: operations.plan(session, None, None, None, None, None, None, None, None),
            lambda session: operations.links(session, None),
            lambda session: operations.usage(session, None, None, None, "day", None),
            lambda session: operations.sync(session, "all", False, False, False, None),
            lambda session: operations.configuration(session, None),
            lambda session: operations.explain(session, "e", None, [], [], False, [], None),
            lambda session: operations.audit(session, None, None),
        ]
        for call in calls:
            script = Script(answer(200, {}))
            with self.assertRaises(errors.BadAnswer):
                script.run(call(script.session))


def repr_digest(content: bytes) -> str:
    return "sha-256=:" + b64encode(hashlib.sha256(content).digest()).decode() + ":"


class BlobTests(unittest.TestCase):
    CONTENT = bytes(range(256)) * 1000
    DIGEST = repr_digest(CONTENT)
    NAME = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
    BLOB = {
        "id": "b-1",
        "digest": "sha256:x",
        "size": 3,
        "type": "t/t",
        "filename": "f",
        "state": "pending",
        "offset": 0,
        "attempts": 0,
        "links": [],
        "verified": False,
        "kept": True,
    }

    def part(self, asked: Asked, end: int = 10**9, digest: str = DIGEST) -> Reply:
        offset = int(asked.fields.get("range", "bytes=0-")[6:-1])
        fields = [("Repr-Digest", digest)]
        if offset:
            fields.append(("Content-Range", f"bytes {offset}-{len(self.CONTENT) - 1}/{len(self.CONTENT)}"))
        whole = answer(206 if offset else 200, self.CONTENT[offset:], fields=fields, kind="image/jpeg")
        return [whole] if end >= len(whole) else [whole[:end], CUT]

    def read(self, script: Script, name: BlobName = "b-1", wait: float = 0) -> bytes:
        return b"".join(script.run(read_blob(script.session, name, wait, None))[1])

    def test_a_download_goes_on_where_it_broke(self) -> None:
        ends = iter([100_000, 50_000, 200, 10**9])
        script = Script(by=lambda asked: self.part(asked, next(ends)))
        self.assertEqual(self.read(script), self.CONTENT)
        self.assertEqual(len(script.asked), 4)

    def test_the_digest_is_compared(self) -> None:
        other = "sha-256=:" + b64encode(bytes(32)).decode() + ":"
        with self.assertRaises(errors.DigestMismatch):
            self.read(Script(by=lambda asked: self.part(asked, digest=other)))
        # Where the app names a digest, the agent's own word for it is not enough.
        wrong = answer(200, b"x", fields=[("Repr-Digest", repr_digest(b"x"))])
        with self.assertRaises(errors.BadAnswer):
            self.read(Script(wrong), self.NAME)
        with self.assertRaises(errors.BadAnswer):
            self.read(Script(answer(200, self.CONTENT)))

    def test_a_file_is_named_by_id_digest_placeholder_or_what_the_agent_said_of_it(self) -> None:
        placeholder = {"$blob": self.NAME, "size": len(self.CONTENT), "type": "t/t", "state": "uploaded"}
        record = answers.record(
            answers.Members(
                {
                    "entity": "e",
                    "id": "r",
                    "version": 1,
                    "sync_status": "synced",
                    "deleted": False,
                    "data": {"n": 1, "photo": placeholder, "more": [placeholder, {"$blob": 7}, "x"]},
                    "etag": "x",
                }
            )
        )
        shown = record.files()
        self.assertEqual(
            [(it.field, it.size, it.is_uploaded) for it in shown], [("photo", 256_000, True), ("more", 256_000, True)]
        )
        self.assertEqual(record.files("photo"), shown[:1])
        blob = answers.blob(answers.Members({**self.BLOB, "digest": self.NAME}))
        self.assertEqual((blob.direction, blob.is_pinned), ("up", False))
        names: List[BlobName] = ["b-1", self.NAME, placeholder, shown[0], blob]
        for name in names:
            script = Script(by=self.part)
            self.assertEqual(self.read(script, name), self.CONTENT)
            expected = "b-1" if name == "b-1" else self.NAME
            self.assertEqual(script.asked[0].target, f"/v1/blobs/{expected}/content")
        bad: List[Any] = ["", None, 7, {}, {"$blob": 1}, "sha256:", "sha256:" + "A" * 64, self.NAME + "0"]
        for name in bad:
            with self.assertRaises(errors.InvalidArgument):
                self.read(Script(), name)

    # MARK: Files that come from the hub

    def fetching(self, offset: int = 5, **members: Any) -> bytes:
        return problem(503, "blob-fetching", blob="b-1", offset=offset, size=9, retry_after=5, **members)

    def test_a_file_that_is_on_its_way_is_told_at_once_unless_the_call_waits(self) -> None:
        script = Script(self.fetching(reason="metered"))
        with self.assertRaises(errors.BlobFetching) as caught:
            self.read(script)
        error = caught.exception
        self.assertEqual((error.blob, error.offset, error.size, error.reason), ("b-1", 5, 9, "metered"))
        self.assertEqual((error.code, error.status, error.doing), ("blob-fetching", 503, "GET /v1/blobs/b-1/content"))
        self.assertIn("agentctl why b-1", error.next_step)
        self.assertEqual((len(script.asked), script.pauses), (1, []))

    def test_a_wait_is_made_of_slices_and_ends_at_its_time(self) -> None:
        began: List[float] = []

        def reply(asked: Asked) -> Reply:
            began.append(script.now)
            script.now += int((re.findall(r"\?wait=([0-9]+)s", asked.target) or ["0"])[0])
            return self.fetching()

        script = Script(by=reply)
        with self.assertRaises(errors.BlobFetching):
            self.read(script, wait=70.5)
        self.assertEqual([it.target.partition("?")[2] for it in script.asked], ["wait=30s", "wait=30s", "wait=10s", ""])
        self.assertEqual(([it - 1000 for it in began], script.pauses), ([0, 30, 60, 70.5], [0.5]))

    def test_an_agent_that_answers_too_early_is_not_asked_all_the_time(self) -> None:
        script = Script(by=lambda asked: self.fetching())
        with self.assertRaises(errors.BlobFetching):
            self.read(script, wait=4)
        self.assertEqual(script.pauses, [1, 1, 1, 1])

    def test_a_file_that_comes_within_the_wait_is_read_to_its_end(self) -> None:
        ends = iter([0, 100_000, 0, 10**9])

        def reply(asked: Asked) -> Reply:
            end = next(ends)
            return self.part(asked, end) if end else self.fetching()

        # It may even leave the device, and come again, while it is read.
        script = Script(by=reply)
        self.assertEqual(self.read(script, self.NAME, wait=60), self.CONTENT)
        self.assertEqual(len(script.asked), 4)

    def test_an_agent_that_restarts_does_not_end_a_wait(self) -> None:
        whole = answer(200, b"x", fields=[("Repr-Digest", repr_digest(b"x"))])
        replies: List[Union[Reply, int]] = [CUT, errno.ECONNREFUSED, CUT, self.fetching(), whole]
        script = Script(*replies)
        self.assertEqual(self.read(script, wait=60), b"x")

    def test_a_wait_that_is_none_is_refused(self) -> None:
        for wait in [-1, float("nan"), float("inf")]:
            with self.assertRaises(errors.InvalidArgument):
                self.read(Script(), wait=wait)

    def test_a_file_that_the_agent_has_given_up_is_told(self) -> None:
        script = Script(problem(409, "blob-not-fetched", blob="b-1", cause="no-file"))
        with self.assertRaises(errors.BlobNotFetched) as caught:
            self.read(script, wait=60)
        self.assertEqual((caught.exception.blob, caught.exception.cause), ("b-1", "no-file"))

    def test_fetch_and_pin_have_no_body_and_may_be_repeated(self) -> None:
        for command in ["fetch", "pin", "unpin"]:
            script = Script(CUT, answer(202, {**self.BLOB, "direction": "down", "pinned": True}))
            blob = script.run(getattr(operations, f"{command}_blob")(script.session, self.NAME, None))[0]
            self.assertEqual((blob.direction, blob.is_pinned), ("down", True))
            asked = script.asked[1]
            self.assertEqual((asked.method, asked.target), ("POST", f"/v1/blobs/{self.NAME}/{command}"))
            self.assertEqual((asked.body, asked.fields.get("content-length")), (b"", "0"))

    def test_another_part_than_asked_for_is_refused(self) -> None:
        replies: List[Reply] = [
            [answer(200, self.CONTENT, fields=[("Repr-Digest", self.DIGEST)])[:5000], CUT],
            answer(200, self.CONTENT),
        ]
        with self.assertRaises(errors.BadAnswer):
            self.read(Script(*replies))

    def add(self, script: Script, size: Any, *parts: bytes) -> Any:
        request = requests.add_blob_stream("p.jpg", "image/jpeg", size)
        return script.run(add_blob(script.session, request, None), parts)[0]

    def test_an_upload_begins_anew_when_it_broke(self) -> None:
        script = Script(CUT, answer(201, self.BLOB))
        self.assertEqual(self.add(script, 6, b"abc", b"def").id, "b-1")
        self.assertEqual([it.body for it in script.asked], [b"abcdef", b"abcdef"])

    def test_an_upload_of_unknown_length(self) -> None:
        script = Script(answer(201, self.BLOB))
        self.add(script, None, b"abc", b"def")
        self.assertEqual(script.asked[0].body, b"abcdef")

    def test_a_file_that_changes_its_size_is_not_stored(self) -> None:
        for parts in [[b"abc"], [b"abc", b"defg"], [b"abcdef", b"g"]]:
            script = Script(answer(201, self.BLOB))
            with self.subTest(parts), self.assertRaises(errors.InvalidArgument):
                self.add(script, 6, *parts)
            self.assertEqual(script.asked, [])

    def test_a_descriptor_goes_with_the_head_once(self) -> None:
        script = Script(answer(201, self.BLOB))
        script.run(add_blob(script.session, requests.add_blob_descriptor("p" * 255, "image/jpeg", 5), None))
        self.assertEqual(script.connections[0].descriptors, [5])


if __name__ == "__main__":
    unittest.main()
