"""The calls of the API that take more than one request: pages, streams of mutations, waits, feeds, files.

Each function is a generator of effects. Those that bring many values emit them, and hold one page, one batch or one
event.
"""

from __future__ import annotations

import datetime
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from ..errors import BadAnswer, BrokenAnswer, DeadlinePassed, EdgeSyncError, InvalidArgument, Refused
from ..values import (
    Attachment,
    Blob,
    Configuration,
    ConfigurationChange,
    Conflict,
    Entity,
    Event,
    LineResult,
    Links,
    Mutation,
    MutationChanged,
    MutationItem,
    Outcome,
    PauseState,
    Plan,
    Progress,
    QueryExplanation,
    Readiness,
    Receipt,
    Record,
    Reload,
    Status,
    SyncResult,
    Undone,
    Usage,
    Why,
)
from ..where import Condition
from . import answers, jsontext, limits, requests
from .effects import END, Emit, Fetch, Pause, Release, Steps, T
from .events import EventParser, Feed
from .exchange import (
    Answer,
    Call,
    Exchange,
    Session,
    Tries,
    check_status,
    check_type,
    connect,
    json_of,
    members_of,
    perform,
)
from .files import BlobName, named
from .requests import Request

log = logging.getLogger("edgesync")

#: Seconds that a call may take; ``None``: as long as the client lets calls take.
Deadline = Optional[float]


# MARK: One request


def ask(
    session: Session, request: Request, read: Callable[[answers.Members], T], deadline: Deadline = None
) -> Steps[T]:
    """One request whose answer is an object."""
    return perform(session.call(deadline), request, lambda answer: read(members_of(answer)))


def enqueue(session: Session, mutation: Mutation, deadline: Deadline) -> Steps[Receipt]:
    key = mutation.key if mutation.key is not None else session.environment.new_key()

    def read(answer: Answer) -> Receipt:
        return answers.receipt(members_of(answer), key, is_repeat=answer.status == 200)

    return perform(session.call(deadline), requests.enqueue(mutation, key), read)


def enqueue_atomic(
    session: Session, mutations: Sequence[Mutation], key: Optional[str], deadline: Deadline
) -> Steps[List[Receipt]]:
    key = key if key is not None else session.environment.new_key()
    request = requests.enqueue_atomic(mutations, key)

    def read(answer: Answer) -> List[Receipt]:
        is_repeat = answer.status == 200
        results = members_of(answer).list("results", lambda one: answers.receipt(one, None, is_repeat), default=False)
        if len(results) != len(mutations):
            raise BadAnswer(f"the agent answered {len(results)} of {len(mutations)} mutations")
        return list(results)

    return perform(session.call(deadline), request, read)


def mutation(session: Session, id: str, deadline: Deadline) -> Steps[MutationItem]:
    return ask(session, requests.mutation(id), answers.mutation_item, deadline)


def cancel(session: Session, id: str, deadline: Deadline) -> Steps[Tuple[str, ...]]:
    return ask(session, requests.cancel(id), lambda members: members.texts("cancelled"), deadline)


def retry(
    session: Session,
    id: str,
    data: Optional[Mapping[str, Any]],
    without: Sequence[str],
    cascade: bool,
    deadline: Deadline,
) -> Steps[Receipt]:
    request = requests.retry(id, data, without, cascade)
    return ask(session, request, lambda members: answers.receipt(members, None, False), deadline)


def undo(session: Session, id: str, dry_run: bool, deadline: Deadline) -> Steps[Undone]:
    return ask(session, requests.undo(id, dry_run), answers.undone, deadline)


def discard(session: Session, id: str, reason: str, deadline: Deadline) -> Steps[None]:
    return ask(session, requests.discard(id, reason), lambda members: None, deadline)


def record(session: Session, entity: str, id: str, view: str, fetch: bool, deadline: Deadline) -> Steps[Record]:
    return ask(session, requests.record(entity, id, view, fetch=fetch), answers.record, deadline)


def record_unless(session: Session, entity: str, id: str, etag: str, deadline: Deadline) -> Steps[Optional[Record]]:
    """The record, or ``None`` if it still is in the state of the tag."""

    def read(answer: Answer) -> Optional[Record]:
        return None if answer.status == 304 else answers.record(members_of(answer))

    return perform(session.call(deadline), requests.record(entity, id, "merged", unless=etag), read)


def progress(session: Session, entity: str, id: str, deadline: Deadline) -> Steps[Progress]:
    return ask(session, requests.progress(entity, id), answers.progress, deadline)


def entities(session: Session, deadline: Deadline) -> Steps[List[Entity]]:
    def read(answer: Answer) -> List[Entity]:
        values = json_of(answer)
        if not isinstance(values, list):
            raise BadAnswer("the answer is not a list")
        return [answers.entity(answers.Members(value, f"the answer/{index}")) for index, value in enumerate(values)]

    return perform(session.call(deadline), requests.get(requests.path("entities")), read)


def conflict(session: Session, id: str, deadline: Deadline) -> Steps[Conflict]:
    return ask(session, requests.get(requests.path("conflicts", id)), answers.conflict, deadline)


def resolve_conflict(
    session: Session,
    id: str,
    choice: Optional[str],
    fields: Optional[Mapping[str, Any]],
    comment: Optional[str],
    author: Optional[str],
    expect_remote_version: Optional[int],
    deadline: Deadline,
) -> Steps[Optional[str]]:
    request = requests.resolve_conflict(id, choice, fields, comment, author, expect_remote_version)
    return ask(session, request, lambda members: members.optional_text("mutation"), deadline)


def status(session: Session, deadline: Deadline) -> Steps[Status]:
    return ask(session, requests.get(requests.path("status")), answers.status, deadline)


def ready(session: Session, deadline: Deadline) -> Steps[Readiness]:
    try:
        return (yield from ask(session, requests.get(requests.path("readyz")), answers.readiness, deadline))
    except Refused as error:
        # "Not yet" is an answer here, although a refusal has the same status.
        if error.status == 503 and "ready" in error.members:
            return answers.readiness(answers.Members(dict(error.members)))
        raise


def why(session: Session, id: str, deadline: Deadline) -> Steps[Why]:
    return ask(session, requests.get(requests.path("why", id)), answers.why, deadline)


def explain(
    session: Session,
    entity: str,
    where: Optional[Condition],
    sort: Sequence[str],
    fields: Sequence[str],
    include_deleted: bool,
    sync_status: Sequence[str],
    deadline: Deadline,
) -> Steps[QueryExplanation]:
    request = requests.records(entity, where, sort, fields, include_deleted, sync_status, None, explain=True)
    return ask(session, request, answers.query_explanation, deadline)


def plan(
    session: Session,
    link: Optional[str],
    metered: Optional[bool],
    roaming: Optional[bool],
    battery: Optional[int],
    charging: Optional[bool],
    budget: Union[None, int, str],
    online: Optional[bool],
    deadline: Deadline,
) -> Steps[Plan]:
    request = requests.plan(link, metered, roaming, battery, charging, budget, online)
    return ask(session, request, answers.plan, deadline)


def links(session: Session, deadline: Deadline) -> Steps[Links]:
    return ask(session, requests.get(requests.path("links")), answers.links, deadline)


def usage(
    session: Session,
    link: Optional[str],
    first_day: requests.Day,
    last_day: requests.Day,
    by: str,
    deadline: Deadline,
) -> Steps[Usage]:
    return ask(session, requests.usage(link, first_day, last_day, by), answers.usage, deadline)


def sync(
    session: Session, scope: str, force: bool, wait: bool, accept_deletions: bool, deadline: Deadline
) -> Steps[SyncResult]:
    # The agent waits longer for the end of a sync than an ordinary call may take.
    patience = limits.SYNC_SECONDS if deadline is None and wait else deadline
    return ask(session, requests.sync(scope, force, wait, accept_deletions), answers.sync_result, patience)


def pause(session: Session, reason: str, until: Optional[datetime.datetime], deadline: Deadline) -> Steps[PauseState]:
    return ask(session, requests.pause(reason, until), answers.pause_state, deadline)


def resume(session: Session, deadline: Deadline) -> Steps[PauseState]:
    return ask(session, requests.resume(), answers.pause_state, deadline)


def configuration(session: Session, deadline: Deadline) -> Steps[Configuration]:
    return ask(session, requests.get(requests.path("config")), answers.configuration, deadline)


def reload_configuration(session: Session, deadline: Deadline) -> Steps[ConfigurationChange]:
    return ask(session, requests.reload_configuration(), answers.configuration_change, deadline)


# MARK: Pages


def mutations(
    session: Session,
    state: Sequence[str],
    entity: Optional[str],
    record_id: Optional[str],
    app: Optional[str],
    deadline: Deadline,
) -> Steps[None]:
    def page(cursor: Optional[str]) -> Request:
        return requests.mutations(state, entity, record_id, app, cursor)

    return _pages(session, page, answers.mutation_item, deadline)


def records(
    session: Session,
    entity: str,
    where: Optional[Condition],
    sort: Sequence[str],
    fields: Sequence[str],
    include_deleted: bool,
    sync_status: Sequence[str],
    deadline: Deadline,
) -> Steps[None]:
    def page(cursor: Optional[str]) -> Request:
        return requests.records(entity, where, sort, fields, include_deleted, sync_status, cursor)

    return _pages(session, page, answers.record, deadline)


def conflicts(session: Session, state: Sequence[str], entity: Optional[str], deadline: Deadline) -> Steps[None]:
    return _pages(session, lambda cursor: requests.conflicts(state, entity, cursor), answers.conflict, deadline)


def blobs(session: Session, state: Sequence[str], deadline: Deadline) -> Steps[None]:
    return _pages(session, lambda cursor: requests.blobs(state, cursor), answers.blob, deadline)


def audit(session: Session, after: Optional[int], deadline: Deadline) -> Steps[None]:
    first = None if after is None else str(after)
    return _pages(session, requests.audit, answers.decision, deadline, first)


def _pages(
    session: Session,
    page: Callable[[Optional[str]], Request],
    read: Callable[[answers.Members], Any],
    deadline: Deadline,
    cursor: Optional[str] = None,
) -> Steps[None]:
    """Emits the items of all pages, one page after the other as they are asked for.

    :param page: Makes the request for the page behind a cursor.
    :param cursor: The cursor of the first page.
    """
    while True:
        # The caller may take any time between two pages, so each page has its own deadline.
        members = yield from ask(session, page(cursor), lambda members: members, deadline)
        answers.check_entity_is_known(members)
        items = members.list("items", read, default=False)
        following = members.object.get("next")
        del members
        for item in items:
            yield Emit(item)
        if following is None:
            return
        # Records and mutations are continued by a text, files and decisions by a number.
        if str(following) == cursor:
            raise BadAnswer("the page leads to itself")
        cursor = str(following)


# MARK: Many mutations


@dataclass
class _Line:
    number: int
    mutation: Mutation
    key: str
    data: bytes = b""
    result: Optional[LineResult] = None


def enqueue_many(session: Session, key_prefix: Optional[str], deadline: Deadline) -> Steps[None]:
    """Sends the mutations of the caller's source in batches, and emits what came of each, in their order.

    A batch is repeated until all of its lines are answered. Their keys make a line that was stored before the
    connection broke a repeat. The deadline holds for each batch.
    """
    number = 0
    is_at_end = False
    while not is_at_end:
        batch: List[_Line] = []
        size = 0
        while len(batch) < limits.BATCH_LINES and size < limits.BATCH_BYTES:
            mutation = yield Fetch()
            if mutation is END:
                is_at_end = True
                break
            number += 1
            batch.append(_line(number, mutation, _key(session, mutation, key_prefix, number)))
            size += len(batch[-1].data)
        failure: Optional[EdgeSyncError] = None
        try:
            yield from _send(session.call(deadline), batch)
        except EdgeSyncError as error:
            failure = error
        # The caller may take any time for each of them, and no connection waits for it meanwhile.
        for line in batch:
            if line.result is None:
                break
            yield Emit(line.result)
        if failure is not None:
            raise failure


def _key(session: Session, mutation: Mutation, prefix: Optional[str], number: int) -> str:
    if mutation.key is not None:
        return mutation.key
    return session.environment.new_key() if prefix is None else f"{prefix}{number}"


def _line(number: int, mutation: Mutation, key: str) -> _Line:
    line = _Line(number, mutation, key)
    try:
        line.data = requests.line(mutation, key)
    except InvalidArgument as error:
        # One that cannot be sent does not end the stream, as one that the agent refuses does not.
        line.result = LineResult(number, mutation, key, error=error)
    return line


def _send(call: Call, batch: Sequence[_Line]) -> Steps[None]:
    waiting: Deque[_Line] = deque(line for line in batch if line.result is None)
    tries = Tries(call)
    while waiting:
        request = requests.enqueue_lines([line.data for line in waiting])
        exchange: Optional[Exchange] = None
        before = len(waiting)
        try:
            connection = yield from connect(call, is_fresh=tries.is_fresh)
            exchange = Exchange(call, request, connection)
            try:
                yield from exchange.read_head()
                if exchange.reader.status == 200:
                    yield from _read_results(exchange, waiting)
                else:
                    check_status((yield from exchange.read_all()))
                    raise BadAnswer(f"the agent answered with the status {exchange.reader.status}")
            except EdgeSyncError:
                yield Release(connection, False)
                raise
            yield Release(connection, exchange.is_whole)
        except EdgeSyncError as error:
            if not waiting and isinstance(error, BrokenAnswer):
                # Only the end of the answer is missing.
                return
            if len(waiting) < before:
                tries.succeeded()
            yield from tries.failed(error, request, exchange)


def _read_results(exchange: Exchange, waiting: Deque[_Line]) -> Steps[None]:
    check_type(exchange.reader.fields, requests.LINES)
    buffer = bytearray()
    position = 0
    sent = len(waiting)
    while True:
        piece = yield from exchange.read_piece()
        if not piece:
            break
        buffer += piece
        while True:
            end = buffer.find(b"\n")
            if end < 0:
                break
            value = jsontext.decode(buffer[:end], "a line of the answer")
            del buffer[: end + 1]
            if isinstance(value, dict) and "summary" in value:
                if waiting or buffer:
                    raise BadAnswer(f"the agent answered {position} of {sent} mutations")
                continue
            position += 1
            if not waiting or not isinstance(value, dict) or value.get("line") != position:
                raise BadAnswer(f"line {position} of the answer belongs to no mutation")
            line = waiting[0]
            line.result = answers.line_result(value, line.number, line.mutation, line.key)
            # Only now: what fails to be read is asked for again.
            waiting.popleft()
        if len(buffer) > limits.ANSWER_LINE_BYTES:
            raise BadAnswer(f"a line of the answer has more than {limits.ANSWER_LINE_BYTES} bytes")
    if buffer or waiting:
        raise BrokenAnswer(f"the agent answered {position} of {sent} mutations and closed the connection")


# MARK: The feed


def follow(
    session: Session, types: Sequence[str], entity: Optional[str], after: Optional[int], give_up_after: Optional[float]
) -> Steps[None]:
    """Emits events without an end, over any number of connections.

    The first connection has the deadline of an ordinary call. Once the feed stood, it comes back until
    ``give_up_after`` seconds have passed without a connection; ``None``: for ever.
    """
    feed = Feed(after)
    environment = session.environment
    failures = 0
    has_stood = False
    last_contact = environment.now()
    while True:
        request = requests.events(types, entity, feed.position)
        stood: List[bool] = []
        error: Optional[EdgeSyncError] = None
        try:
            yield from _follow_once(Call(session, float("inf")), request, feed, stood)
        except EdgeSyncError as failure:
            error = failure
        if stood:
            has_stood, last_contact = True, environment.now()
        patience = session.deadline if not has_stood else float("inf") if give_up_after is None else give_up_after
        # A connection that brought nothing may do so again at once.
        failures = 0 if stood and feed.has_news else failures + 1
        wait = 0.0
        if error is not None:
            error.doing = error.doing or request.doing
            elapsed = environment.now() - last_contact
            decided = environment.policy.decide(
                error,
                tries=max(1, failures),
                was_sent=True,
                is_repeatable=True,
                was_connected=session.was_connected,
                elapsed=elapsed,
                left=patience - elapsed,
                draw=environment.draw(),
            )
            if decided is None:
                raise error
            wait = decided
            log.info("the feed broke and resumes after position %s: %s", feed.position, error)
        elif failures:
            wait = environment.policy.wait(failures, environment.draw())
        if wait:
            yield Pause(wait)


def _follow_once(call: Call, request: Request, feed: Feed, stood: List[bool]) -> Steps[None]:
    """Emits the events of one connection, until the agent ends it.

    :param stood: Gets an element as soon as the agent has answered with a stream.
    """
    connection = yield from connect(call, is_fresh=True, is_feed=True)
    exchange = Exchange(call, request, connection)
    parser = EventParser()
    feed.begin()
    try:
        yield from exchange.read_head()
        if exchange.reader.status != 200:
            check_status((yield from exchange.read_all()))
        check_type(exchange.reader.fields, requests.EVENTS)
        stood.append(True)
        while True:
            piece = yield from exchange.read_piece()
            if not piece:
                break
            for block in parser.feed(piece):
                raw = feed.accept(block)
                if raw is not None:
                    yield Emit(answers.event(raw))
    except EdgeSyncError:
        yield Release(connection, False)
        raise
    yield Release(connection, False)


# MARK: Waiting for outcomes


def wait(session: Session, ids: Sequence[str], timeout: float) -> Steps[None]:
    """Emits each mutation when it has come to rest.

    The feed says when to look; what there is to see, the mutation itself says. So nothing is missed, however the
    connection breaks. While the agent gives no feed because too many are read already, it is asked at the pace that it
    names.

    :raises DeadlinePassed: Some of them are still open.
    """
    if len(ids) > limits.WAITED_MUTATIONS:
        raise InvalidArgument(f"one call waits for at most {limits.WAITED_MUTATIONS} mutations")
    call = session.call(timeout)
    watch = _Watch(session, call, ids)
    feed = Feed(None)
    failures = 0
    yield from watch.look(watch.open)
    while watch.open:
        request = requests.events(["mutation"], None, feed.position)
        stood: List[bool] = []
        error: Optional[EdgeSyncError] = None
        try:
            yield from _intercept(_follow_once(call, request, feed, stood), watch.see)
        except DeadlinePassed:
            raise watch.too_late() from None
        except EdgeSyncError as failure:
            error = failure
        if not watch.open:
            return
        failures = 1 if stood else failures + 1
        pause: Optional[float] = call.environment.policy.wait(failures, call.environment.draw())
        if error is not None:
            error.doing = error.doing or request.doing
            pause = call.environment.policy.decide(
                error,
                tries=failures,
                was_sent=True,
                is_repeatable=True,
                was_connected=session.was_connected,
                elapsed=call.elapsed,
                left=float("inf"),
                draw=call.environment.draw(),
            )
        if pause is None and error is not None:
            raise error
        yield Pause(max(0.0, min(pause or 0.0, call.left)))
        yield from watch.look(watch.open)


class _Watch:
    """The mutations that one call waits for."""

    def __init__(self, session: Session, call: Call, ids: Sequence[str]) -> None:
        self._session = session
        self._call = call
        #: Mutations that are still open, in the order of the caller.
        self.open: Dict[str, Optional[MutationItem]] = dict.fromkeys(ids)
        # Mutations that others were merged into, with those others: they come to rest together.
        self._merged: Dict[str, Set[str]] = {}

    def see(self, event: Event) -> Steps[bool]:
        """Looks at what an event is about. Returns whether there is more to wait for."""
        if isinstance(event, Reload):
            yield from self.look(self.open)
        elif isinstance(event, MutationChanged):
            concerned = self._merged.pop(event.id, set()) | ({event.id} if event.id in self.open else set())
            yield from self.look(concerned)
        return bool(self.open)

    def look(self, ids: Any) -> Steps[None]:
        """Reads these mutations, and emits those that have come to rest."""
        for id in [id for id in ids if id in self.open]:
            if self._call.left <= 0:
                raise self.too_late()
            try:
                item: MutationItem = yield from ask(
                    self._session, requests.mutation(id), answers.mutation_item, self._call.left
                )
            except DeadlinePassed:
                raise self.too_late() from None
            if item.outcome is Outcome.OPEN:
                self.open[id] = item
                if item.into is not None:
                    self._merged.setdefault(item.into, set()).add(id)
            else:
                del self.open[id]
                yield Emit(item)

    def too_late(self) -> DeadlinePassed:
        id, item = next(iter(self.open.items()))
        state = "not known" if item is None else item.state
        more = f", and {len(self.open) - 1} more are open" if len(self.open) > 1 else ""
        return DeadlinePassed(
            f"the state of the mutation {id} is {state} after {self._call.deadline:g} s{more}",
            next_step=f"wait again, or see why it waits: agentctl why {id}",
        )


class _Enough(EdgeSyncError):
    """The reader of a feed has seen what it waited for."""


def _intercept(steps: Steps[None], see: Callable[[Any], Steps[bool]]) -> Steps[None]:
    """Performs steps, and hands what they emit to ``see`` instead of the caller, until that returns ``False``."""
    result: Any = None
    has_enough = False
    try:
        effect = next(steps)
        while True:
            if isinstance(effect, Emit):
                result = None
                has_enough = not (yield from see(effect.value))
            else:
                result = yield effect
            if has_enough:
                # They give their connection back, and end.
                has_enough = False
                effect = steps.throw(_Enough(""))
            else:
                effect = steps.send(result)
    except (StopIteration, _Enough):
        return


# MARK: Files


def blob(session: Session, id: str, deadline: Deadline) -> Steps[Blob]:
    return ask(session, requests.get(requests.path("blobs", id)), answers.blob, deadline)


def retry_blob(session: Session, id: str, deadline: Deadline) -> Steps[Blob]:
    # The route takes no body, not even an empty object.
    return ask(session, Request("POST", requests.path("blobs", id, "retry")), answers.blob, deadline)


def fetch_blob(session: Session, name: BlobName, deadline: Deadline) -> Steps[Blob]:
    return _blob_command(session, name, "fetch", deadline)


def pin_blob(session: Session, name: BlobName, deadline: Deadline) -> Steps[Blob]:
    return _blob_command(session, name, "pin", deadline)


def unpin_blob(session: Session, name: BlobName, deadline: Deadline) -> Steps[Blob]:
    return _blob_command(session, name, "unpin", deadline)


def _blob_command(session: Session, name: BlobName, command: str, deadline: Deadline) -> Steps[Blob]:
    # None of these routes takes a body.
    return ask(session, Request("POST", requests.path("blobs", named(name).text, command)), answers.blob, deadline)


def add_blob(session: Session, request: Request, deadline: Deadline) -> Steps[Blob]:
    return ask(session, request, answers.blob, limits.FILE_SECONDS if deadline is None else deadline)


def attach(
    session: Session, request: Request, mutation: Mutation, field: str, deadline: Deadline
) -> Steps[Tuple[Blob, Receipt]]:
    """Adds a file, and lets a field of a record show it."""
    added = yield from add_blob(session, request, deadline)
    shown = Mutation(
        mutation.entity,
        mutation.action,
        mutation.record_id,
        key=mutation.key,
        author=mutation.author,
        priority=mutation.priority,
        attachments=[Attachment(field, added.id)],
    )
    receipt = yield from enqueue(session, shown, deadline)
    return added, receipt
