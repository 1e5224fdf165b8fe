"""Reads the answers of the agent into values, strictly.

A member that must be there and is not, or is of another type, is a :class:`~edgesync.errors.BadAnswer` with its place.
A member that is not known is kept in ``raw``, because a newer agent may add members.
"""

from __future__ import annotations

import datetime
import re
from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar

from ..errors import REFUSALS, BadAnswer, FieldError, Refused, UnknownEntity
from ..values import (
    Blob,
    BlobChanged,
    BlobLink,
    Budget,
    Cause,
    Configuration,
    ConfigurationChange,
    Conflict,
    ConflictChanged,
    ConflictField,
    ConflictSide,
    Decision,
    Entity,
    Event,
    FormCounts,
    FormSection,
    IndexUse,
    LeftField,
    LineResult,
    Link,
    Links,
    Mutation,
    MutationChanged,
    MutationItem,
    NamedForm,
    PauseState,
    Plan,
    PlannedItem,
    PlannedSend,
    PlannedWait,
    Probe,
    Problem,
    Progress,
    QueryExplanation,
    Readiness,
    Receipt,
    Record,
    RecordChanged,
    Reload,
    Setting,
    Situation,
    Status,
    SyncResult,
    Undone,
    Usage,
    UsageItem,
    Why,
)
from . import jsontext
from .events import RawEvent

T = TypeVar("T")
_int_max = (1 << 63) - 1


class Members:
    """The members of one object of an answer, each asked for by name and type."""

    def __init__(self, value: Any, place: str = "the answer") -> None:
        if not isinstance(value, dict):
            raise BadAnswer(f"{place} is not an object")
        self.object: Dict[str, Any] = value
        self._place = place

    def text(self, name: str) -> str:
        return self._must(name, self.optional_text(name))

    def optional_text(self, name: str) -> Optional[str]:
        return self._typed(name, str, "text")

    def number(self, name: str) -> int:
        return self._must(name, self.optional_number(name))

    def optional_number(self, name: str) -> Optional[int]:
        value = self._typed(name, int, "a whole number")
        if value is not None and (isinstance(value, bool) or not -_int_max <= value <= _int_max):
            raise BadAnswer(f"{self.place(name)} is not a whole number of 64 bits")
        return value

    def flag(self, name: str, default: Optional[bool] = None) -> bool:
        value = self.optional_flag(name)
        return self._must(name, default if value is None else value)

    def optional_flag(self, name: str) -> Optional[bool]:
        return self._typed(name, bool, "true or false")

    def time(self, name: str) -> Optional[datetime.datetime]:
        text = self.optional_text(name)
        return None if text is None else _time(text, self.place(name))

    def document(self, name: str) -> Optional[Dict[str, Any]]:
        return self._typed(name, dict, "an object")

    def inside(self, name: str) -> "Members":
        return Members(self.object.get(name), self.place(name))

    def optional_inside(self, name: str) -> Optional["Members"]:
        return None if self.object.get(name) is None else self.inside(name)

    def list(self, name: str, read: Callable[["Members"], T], *, default: bool = True) -> Tuple[T, ...]:
        """Each element of a list of objects; an absent list counts as empty, unless ``default`` is false."""
        values = self._typed(name, list, "a list")
        if values is None and not default:
            raise BadAnswer(f"{self.place(name)} is missing")
        place = self.place(name)
        return tuple(read(Members(value, f"{place}/{index}")) for index, value in enumerate(values or []))

    def texts(self, name: str) -> Tuple[str, ...]:
        values: List[Any] = self._typed(name, list, "a list") or []
        if not all(isinstance(value, str) for value in values):
            raise BadAnswer(f"{self.place(name)} is not a list of texts")
        return tuple(values)

    def table(self, name: str, read: Callable[["Members"], T]) -> Dict[str, T]:
        """Each member of an object of objects."""
        inside = self.inside(name)
        return {key: read(inside.inside(key)) for key in inside.object}

    def place(self, name: str) -> str:
        return f"{self._place}/{name}"

    def _typed(self, name: str, kind: Type[T], words: str) -> Optional[T]:
        value = self.object.get(name)
        if value is None or isinstance(value, kind):
            return value
        raise BadAnswer(f"{self.place(name)} is not {words}")

    def _must(self, name: str, value: Optional[T]) -> T:
        if value is None:
            raise BadAnswer(f"{self.place(name)} is missing")
        return value


_time_form = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z\Z")


def _time(text: str, place: str) -> datetime.datetime:
    match = _time_form.match(text)
    try:
        if match is None:
            raise ValueError
        microseconds = int((match[2] or "0").ljust(9, "0")[:6])
        time = datetime.datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S")
        return time.replace(microsecond=microseconds, tzinfo=datetime.timezone.utc)
    except ValueError:
        raise BadAnswer(f"{place} is not a time such as 2026-11-21T06:00:00.000Z") from None


# MARK: Refusals


def refusal(status: int, data: bytes, retry_after: Optional[str]) -> Refused:
    """The refusal in an answer that is not a success."""
    members: Dict[str, Any] = {}
    try:
        value = jsontext.decode(data, "the refusal")
        if isinstance(value, dict):
            members = value
        if isinstance(members.get("type"), str):
            return problem(members, status, retry_after)
    except BadAnswer:
        # Something else than the agent answered, or an agent without the words for it: the status is all there is.
        pass
    return Refused(
        f"the agent answered with the status {status}", code=f"status-{status}", status=status, members=members
    )


def problem(value: Any, status: int = 0, retry_after: Optional[str] = None) -> Refused:
    """A problem document (RFC 9457) as an exception."""
    members = Members(value, "the refusal")
    code = members.text("type").rpartition(":")[2]
    seconds = members.optional_number("retry_after")
    if seconds is None and retry_after is not None and re.match(r"[0-9]{1,9}\Z", retry_after):
        seconds = int(retry_after)
    known = {"type", "title", "status", "detail", "errors", "retry_after"}
    return REFUSALS.get(code, Refused)(
        members.optional_text("detail") or members.optional_text("title") or f"the agent answered with the code {code}",
        code=code,
        status=status or members.optional_number("status") or 0,
        fields=members.list("errors", _field_error),
        retry_after=seconds,
        members={name: value for name, value in members.object.items() if name not in known},
    )


def _field_error(members: Members) -> FieldError:
    return FieldError(members.optional_text("pointer") or "", members.optional_text("detail") or "")


def _note(members: Optional[Members]) -> Optional[Problem]:
    if members is None:
        return None
    return Problem(members.text("code"), members.optional_text("detail") or "", members.list("errors", _field_error))


# MARK: Mutations


def receipt(members: Members, key: Optional[str], is_repeat: bool) -> Receipt:
    record = members.inside("record")
    return Receipt(
        id=members.text("id"),
        seq=members.number("seq"),
        state=members.text("state"),
        entity=record.text("entity"),
        record_id=record.text("id"),
        key=key,
        is_repeat=is_repeat,
        durability=members.optional_text("durability") or "flash",
        etag=record.optional_text("etag"),
        version=record.optional_number("version"),
        sync_status=record.optional_text("sync_status"),
        data=record.document("data"),
        warnings=members.list("warnings", _field_error),
        kept=members.document("kept") or {},
        raw=members.object,
        form=members.optional_text("form"),
    )


def undone(members: Members) -> Undone:
    made = members.optional_inside("mutation")
    return Undone(
        entity=members.text("entity"),
        record_id=members.text("id"),
        fields=members.texts("fields"),
        left=members.list("left", lambda left: LeftField(left.text("field"), left.text("reason"))),
        mutation=None if made is None else receipt(made, None, False),
    )


def line_result(value: Any, number: int, mutation: Mutation, key: str) -> LineResult:
    members = Members(value, "a line of the answer")
    error = members.object.get("error")
    if error is not None:
        return LineResult(number, mutation, key, error=problem(error))
    return LineResult(
        number,
        mutation,
        key,
        members.text("id"),
        members.text("state"),
        members.flag("repeat", False),
        members.document("kept") or {},
    )


def mutation_item(members: Members) -> MutationItem:
    deferred = members.optional_inside("deferred")
    return MutationItem(
        id=members.text("id"),
        seq=members.number("seq"),
        entity=members.text("entity"),
        record_id=members.text("record_id"),
        action=members.text("action"),
        state=members.text("state"),
        priority=members.text("priority"),
        attempts=members.number("attempts"),
        created_at=members.time("created_at"),
        next_attempt_at=members.time("next_attempt_at"),
        deferred=deferred.text("reason") if deferred else None,
        deferred_until=deferred.time("until") if deferred else None,
        problem=_note(members.optional_inside("problem")),
        app=members.optional_text("app"),
        author=members.optional_text("author"),
        into=members.optional_text("into"),
        supersedes=members.optional_text("supersedes"),
        raw=members.object,
    )


# MARK: Records


def record(members: Members) -> Record:
    return Record(
        entity=members.text("entity"),
        id=members.text("id"),
        version=members.number("version"),
        sync_status=members.text("sync_status"),
        is_deleted=members.flag("deleted"),
        data=members.document("data"),
        base=members.document("base"),
        etag=members.text("etag"),
        server_id=members.optional_text("server_id"),
        synced_at=members.time("synced_at"),
        created_at=members.time("created_at"),
        updated_at=members.time("updated_at"),
        pending=members.texts("pending"),
        conflict=members.optional_text("conflict"),
        raw=members.object,
    )


def check_entity_is_known(members: Members) -> None:
    """:raises UnknownEntity: The page says that neither this device nor its hub knows the entity."""
    sentence = members.optional_text("unknown_entity")
    if sentence is not None:
        raise UnknownEntity(sentence.rstrip("."), status=404)


def entity(members: Members) -> Entity:
    strategy = members.optional_inside("strategy")
    fields = strategy.optional_inside("fields") if strategy else None
    return Entity(
        name=members.text("name"),
        kind=members.text("kind"),
        access=members.text("access"),
        records=members.number("records"),
        pending=members.number("pending"),
        cursor_age_seconds=members.optional_number("cursor_age_s"),
        strategy=strategy.text("record") if strategy else None,
        field_strategies={name: fields.text(name) for name in fields.object} if fields else {},
        raw=members.object,
    )


def query_explanation(members: Members) -> QueryExplanation:
    return QueryExplanation(
        entity=members.text("entity"),
        way=members.text("way"),
        index=members.optional_text("index"),
        is_filtered=members.flag("filtered"),
        is_ordered=members.flag("ordered"),
        read=members.number("read"),
        found=members.number("found"),
        is_cut_off=members.flag("cut_off", False),
        records=members.number("records"),
        indexes=members.list("indexes", lambda one: IndexUse(one.text("index"), one.number("percent")), default=False),
        suggestion=members.optional_text("suggestion"),
        raw=members.object,
    )


# MARK: Forms


def progress(members: Members) -> Progress:
    form = members.inside("form")
    is_judged = members.optional_number("questions") is not None
    return Progress(
        entity=members.text("entity"),
        id=members.text("id"),
        form=NamedForm(
            form.text("state"), form.optional_text("id"), form.optional_text("version"), form.optional_text("reason")
        ),
        title=members.optional_text("title"),
        says_complete=members.flag("says_complete"),
        is_complete=members.optional_flag("complete"),
        counts=_form_counts(members) if is_judged else None,
        sections=members.list("sections", _form_section),
        holes=members.list("holes", _field_error),
        faults=members.list("faults", _field_error),
        raw=members.object,
    )


def _form_counts(members: Members) -> FormCounts:
    return FormCounts(
        members.number("questions"),
        members.number("answered"),
        members.number("required"),
        members.number("missing"),
        members.number("percent"),
    )


def _form_section(members: Members) -> FormSection:
    return FormSection(
        members.text("id"), members.optional_text("title"), members.flag("applies"), _form_counts(members)
    )


# MARK: Conflicts


def conflict(members: Members) -> Conflict:
    return Conflict(
        id=members.text("id"),
        entity=members.text("entity"),
        record_id=members.text("record_id"),
        mutation=members.optional_text("mutation"),
        kind=members.text("kind"),
        state=members.text("state"),
        opened_at=members.time("opened_at"),
        remote_version=members.number("remote_version"),
        fields=members.list("fields", _conflict_field),
        raw=members.object,
    )


def _conflict_field(members: Members) -> ConflictField:
    return ConflictField(
        members.text("field"),
        members.object.get("base"),
        _side(members.inside("local")),
        _side(members.inside("remote")),
    )


def _side(members: Members) -> ConflictSide:
    return ConflictSide(
        "value" in members.object,
        members.object.get("value"),
        members.flag("deleted", False),
        members.optional_text("author"),
        members.optional_text("device"),
        members.time("at"),
    )


# MARK: Files


def blob(members: Members) -> Blob:
    deferred = members.optional_inside("deferred")
    return Blob(
        id=members.text("id"),
        digest=members.text("digest"),
        size=members.number("size"),
        type=members.text("type"),
        filename=members.text("filename"),
        state=members.text("state"),
        offset=members.number("offset"),
        attempts=members.number("attempts"),
        links=members.list("links", _blob_link),
        is_verified=members.flag("verified"),
        is_kept=members.flag("kept"),
        deferred=deferred.text("reason") if deferred else None,
        deferred_until=deferred.time("until") if deferred else None,
        error=members.optional_text("error"),
        raw=members.object,
        # An older agent does not say it.
        direction=members.optional_text("direction") or "up",
        is_pinned=members.optional_flag("pinned") or False,
    )


def _blob_link(members: Members) -> BlobLink:
    return BlobLink(members.text("entity"), members.text("id"), members.text("field"))


# MARK: The feed


def event(raw: RawEvent) -> Event:
    """One block of the feed as a value. A type of a newer agent becomes a plain :class:`Event`."""
    position = raw.position or 0
    members = Members(jsontext.decode(raw.data, f"the event {position}"), f"the event {position}")
    read: Optional[Callable[[int, str, Members], Event]] = _events.get(raw.type)
    return read(position, raw.type, members) if read else Event(position, raw.type, members.object)


def _record_changed(position: int, kind: str, members: Members) -> Event:
    return RecordChanged(
        position,
        kind,
        members.object,
        entity=members.text("entity"),
        id=members.text("id"),
        is_deletion=members.text("change") == "delete",
        is_remote=members.text("source") == "remote",
        version=members.number("version"),
        sync_status=members.text("sync_status"),
        is_revoked=members.optional_text("reason") == "revoked",
    )


def _mutation_changed(position: int, kind: str, members: Members) -> Event:
    return MutationChanged(
        position,
        kind,
        members.object,
        id=members.text("id"),
        seq=members.number("seq"),
        state=members.text("state"),
        entity=members.text("entity"),
        record_id=members.text("record_id"),
        problem=_note(members.optional_inside("problem")),
        into=members.optional_text("into"),
    )


def _conflict_changed(position: int, kind: str, members: Members) -> Event:
    return ConflictChanged(
        position,
        kind,
        members.object,
        id=members.text("id"),
        entity=members.text("entity"),
        record_id=members.text("record_id"),
        state=members.text("state"),
        fields=members.texts("fields"),
    )


def _blob_changed(position: int, kind: str, members: Members) -> Event:
    return BlobChanged(
        position,
        kind,
        members.object,
        id=members.text("id"),
        state=members.text("state"),
        offset=members.number("offset"),
        size=members.number("size"),
    )


def _reload(position: int, kind: str, members: Members) -> Event:
    return Reload(position, kind, members.object, is_gap=kind == "reset")


_events: Dict[str, Callable[[int, str, Members], Event]] = {
    "start": _reload,
    "reset": _reload,
    "record": _record_changed,
    "mutation": _mutation_changed,
    "conflict": _conflict_changed,
    "blob": _blob_changed,
}


# MARK: The agent itself


def status(members: Members) -> Status:
    agent, overall, outbox = members.inside("agent"), members.inside("overall"), members.inside("outbox")
    waiting = outbox.inside("pending")
    conflicts = members.optional_inside("conflicts")
    return Status(
        level=overall.text("level"),
        reasons=overall.texts("reasons"),
        connectivity=members.inside("connectivity").text("state"),
        version=agent.text("version"),
        device=agent.text("device"),
        cause=_cause(members.optional_inside("cause")),
        pending=sum(waiting.number(name) for name in waiting.object),
        refused=sum(outbox.number(name) for name in ("rejected", "failed", "held")),
        enqueued=outbox.number("enqueued"),
        conflicts=conflicts.number("open") if conflicts else 0,
        raw=members.object,
    )


def _cause(members: Optional[Members]) -> Optional[Cause]:
    if members is None:
        return None
    return Cause(
        members.text("code"), members.text("sentence"), members.time("until"), members.optional_text("command") or None
    )


def readiness(members: Members) -> Readiness:
    return Readiness(members.flag("ready"), members.optional_text("reason"), members.object)


def situation(members: Members) -> Situation:
    return Situation(
        reachability=members.text("reachability"),
        uplink=members.optional_text("uplink"),
        is_metered=members.flag("metered"),
        is_roaming=members.flag("roaming"),
        power=members.text("power"),
        budget=members.text("budget"),
        is_paused=members.flag("paused"),
        is_breaker_open=members.flag("breaker_open"),
        is_window_open=members.flag("window_open"),
        battery_percent=members.optional_number("battery_percent"),
        budget_left_bytes=members.optional_number("budget_left_bytes"),
        retry_at=members.time("retry_at"),
    )


def why(members: Members) -> Why:
    facts = members.optional_inside("situation")
    return Why(
        id=members.text("id"),
        state=members.text("state"),
        verdict=members.text("verdict"),
        sentence=members.text("sentence"),
        reason=members.optional_text("reason"),
        until=members.time("until"),
        expires_at=members.time("expires_at"),
        would_change=members.texts("would_change"),
        command=members.optional_text("command"),
        raw=members.object,
        cause=members.optional_text("cause"),
        rule=members.optional_text("rule"),
        also=members.texts("also"),
        situation=situation(facts) if facts else None,
    )


def plan(members: Members) -> Plan:
    return Plan(
        would_send=members.list("would_send", _planned_send, default=False),
        would_defer=members.list("would_defer", _planned_wait, default=False),
        situation=situation(members.inside("situation")),
        bytes_total=members.number("bytes_total"),
        raw=members.object,
    )


def _planned_send(members: Members) -> PlannedSend:
    return PlannedSend(
        traffic_class=members.text("class"),
        count=members.number("count"),
        bytes=members.number("bytes"),
        items=members.list("items", lambda item: PlannedItem(item.text("id"), item.number("bytes")), default=False),
    )


def _planned_wait(members: Members) -> PlannedWait:
    return PlannedWait(
        traffic_class=members.text("class"),
        count=members.number("count"),
        bytes=members.number("bytes"),
        reason=members.text("reason"),
        until=members.time("until"),
        sentence=members.text("sentence"),
        cause=members.optional_text("cause"),
        command=members.optional_text("command"),
    )


def links(members: Members) -> Links:
    return Links(
        items=members.list("items", _link, default=False),
        uplink=members.optional_text("uplink"),
        cause=_cause(members.optional_inside("cause")),
        raw=members.object,
    )


def _link(members: Members) -> Link:
    probe = members.optional_inside("last_probe")
    budgets = members.optional_inside("budget")
    return Link(
        name=members.text("name"),
        kind=members.optional_text("kind"),
        state=members.text("state"),
        is_metered=members.flag("metered"),
        metered_by=members.optional_text("metered_by"),
        is_roaming=members.flag("roaming"),
        addresses=members.texts("addresses"),
        rtt_ms=members.optional_number("rtt_ms"),
        rate_bytes_per_second=members.optional_number("rate_bytes_per_s"),
        last_probe=Probe(probe.time("at"), probe.text("result")) if probe else None,
        budgets=_budgets(budgets) if budgets else {},
        raw=members.object,
    )


def _budgets(members: Members) -> Dict[str, Budget]:
    return {period: _budget(members.inside(period)) for period in members.object}


def _budget(members: Members) -> Budget:
    return Budget(
        members.number("used"), members.number("limit"), members.optional_text("level"), members.time("resets_at")
    )


def usage(members: Members) -> Usage:
    period = members.text("by")

    def item(one: Members) -> UsageItem:
        return UsageItem(
            link=one.text("link"),
            period=one.text(period),
            traffic_class=one.text("class"),
            up=one.number("up"),
            down=one.number("down"),
            requests=one.number("requests"),
        )

    return Usage(
        items=members.list("items", item, default=False),
        budgets=members.table("budgets", _budgets),
        raw=members.object,
    )


def sync_result(members: Members) -> SyncResult:
    deferred = members.optional_inside("deferred")
    moved = members.optional_inside("bytes")
    return SyncResult(
        cycle=members.text("cycle"),
        result=members.optional_text("result"),
        detail=members.optional_text("detail"),
        pushed=members.optional_number("pushed") or 0,
        pulled=members.optional_number("pulled") or 0,
        deferred={name: deferred.text(name) for name in deferred.object} if deferred else {},
        bytes_up=moved.number("up") if moved else 0,
        bytes_down=moved.number("down") if moved else 0,
        raw=members.object,
    )


def pause_state(members: Members) -> PauseState:
    by = members.optional_inside("by")
    return PauseState(
        is_paused=bool(members.texts("paused")),
        until=members.time("until"),
        reason=members.optional_text("reason") or "",
        uid=by.number("uid") if by else None,
    )


def configuration(members: Members) -> Configuration:
    def setting(one: Members) -> Setting:
        return Setting(one.object.get("value"), one.text("origin"), one.optional_text("place"))

    return Configuration(members.number("version"), members.table("values", setting))


def configuration_change(members: Members) -> ConfigurationChange:
    return ConfigurationChange(members.texts("changed"), members.texts("restart_needed"))


def decision(members: Members) -> Decision:
    return Decision(
        number=members.number("n"),
        at=members.time("at"),
        uid=members.number("uid"),
        verb=members.text("verb"),
        target=members.text("target"),
        details=members.document("json") or {},
    )
