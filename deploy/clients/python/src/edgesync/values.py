"""The values that go to the agent and come from it.

Times are aware ``datetime`` objects in UTC. Documents are dictionaries; see :mod:`edgesync.core.jsontext` for their
numbers. Every value that comes from the agent keeps its JSON in ``raw``, so that a member of a newer agent can be read
as well.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from dataclasses import field as dataclass_field
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

from .errors import EdgeSyncError, FieldError, NotDelivered

# MARK: What goes to the agent


class Operation(NamedTuple):
    """A change of one field that says what to do instead of what results.

    ``operator`` is ``append``, ``inc``, ``add``, ``remove``, ``max`` or ``min``. The field may be a member of an
    object: ``form.count``.
    """

    field: str
    operator: str
    value: Any


class Attachment(NamedTuple):
    """A file that a field of a record shows: ``Attachment("photo", "b-31")``."""

    field: str
    blob: str


@dataclass(frozen=True)
class Mutation:
    """One change of one record that an app asks for."""

    #: Type of the record, as the configuration names it.
    entity: str
    #: ``create``, ``update``, ``upsert`` or ``delete``.
    action: str
    #: Id of the record. A ``create`` without one gets an id from the agent.
    record_id: Optional[str] = None
    #: Fields to set.
    data: Optional[Mapping[str, Any]] = None
    #: Fields to remove.
    unset: Sequence[str] = ()
    operations: Sequence[Operation] = ()
    #: Files that fields of the record show.
    attachments: Sequence[Attachment] = ()
    #: Idempotency key: 1 to 255 characters of visible ASCII, unique for the app. The agent applies all requests with
    #: one key once, for 30 days. Without a key the client makes one, which protects its own retries but not a restart
    #: of the app.
    key: Optional[str] = None
    #: ``critical``, ``normal`` or ``bulk``; the entity's own priority if ``None``.
    priority: Optional[str] = None
    #: Etag of the read that this change is based on. The agent refuses the change if the record is in another state.
    if_match: Optional[str] = None
    #: Version of the hub's record that this change is based on.
    expect_version: Optional[int] = None
    #: Ids of mutations that must be at the hub before this one is sent.
    depends_on: Sequence[str] = ()
    #: The agent may merge this change with others of the same record that were not sent yet.
    coalesce: bool = True
    #: Seconds after which the change expires if it was not sent.
    ttl: Optional[int] = None
    #: Person who made the change, for conflicts and the audit trail.
    author: Optional[str] = None
    #: ``flash`` answers when the change is on flash; ``relaxed`` answers at once, where the entity allows it.
    durability: Optional[str] = None
    #: Version of the entity's schema in which this change is written; the version that the client names if ``None``.
    schema: Optional[int] = None


# MARK: What comes from the agent: mutations


class Outcome(str, enum.Enum):
    """Outcome of a mutation. Every outcome but ``OPEN`` is settled, or waits for a person."""

    OPEN = "open"
    #: The hub has it.
    DELIVERED = "delivered"
    #: Two sides changed the same field, and a person must decide.
    CONFLICT = "conflict"
    #: The hub refused it. The agent keeps the value and the reason until a person acknowledges it.
    REJECTED = "rejected"
    #: It keeps failing, or its outcome cannot be found out. It waits for a person.
    PARKED = "parked"
    #: Its time to live ended before it was sent.
    EXPIRED = "expired"
    #: It was taken back before it was sent.
    CANCELLED = "cancelled"
    #: A person acknowledged the refused value and let it go.
    DISCARDED = "discarded"
    #: A newer mutation took its place, or nothing of it was left to send.
    SUPERSEDED = "superseded"


_outcomes = {
    "pending": Outcome.OPEN,
    "in_flight": Outcome.OPEN,
    "conflicted": Outcome.CONFLICT,
    "rejected": Outcome.REJECTED,
    "failed": Outcome.PARKED,
    "held": Outcome.PARKED,
    "done": Outcome.DELIVERED,
    "resolved": Outcome.SUPERSEDED,
    "discarded": Outcome.DISCARDED,
    "coalesced": Outcome.OPEN,
    "cancelled": Outcome.CANCELLED,
    "superseded": Outcome.SUPERSEDED,
    "expired": Outcome.EXPIRED,
}


@dataclass(frozen=True)
class Problem:
    """The reason why a mutation is not delivered, in the words of the hub or of the agent."""

    code: str
    sentence: str
    fields: Tuple[FieldError, ...] = ()


@dataclass(frozen=True)
class Receipt:
    """The agent has stored a mutation."""

    #: Id of the mutation.
    id: str
    #: Its place in the outbox.
    seq: int
    state: str
    entity: str
    #: Id of the record; the agent's own where the mutation gave none.
    record_id: str
    #: Idempotency key under which it was sent; ``None`` for a member of an atomic list.
    key: Optional[str]
    #: The agent had stored it before, under the same key.
    is_repeat: bool
    #: ``flash``, or ``relaxed`` when it reaches the flash within a second.
    durability: str = "flash"
    #: State of the record after the change; ``None`` for events, which are not in the mirror.
    etag: Optional[str] = None
    version: Optional[int] = None
    sync_status: Optional[str] = None
    #: The record's document after the change; ``None`` if it is deleted, or an event.
    data: Optional[Dict[str, Any]] = None
    #: Violations of the entity's schema. The agent accepted the mutation all the same.
    warnings: Tuple[FieldError, ...] = ()
    #: Values that ``max`` or ``min`` has kept because the change does not beat them, by field.
    kept: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    #: Reason why no form judged the change although its record names one: ``absent`` (not on this device) or
    #: ``unusable``. The hub judges it when it arrives. ``None``: a form judged it, or none had to.
    form: Optional[str] = None


@dataclass(frozen=True)
class LeftField:
    """A field that ``undo`` leaves as it is."""

    #: Name of the field; empty for the whole record.
    field: str
    #: ``changed-since``, ``not-kept``, ``one-way`` or ``record``.
    reason: str


@dataclass(frozen=True)
class Undone:
    """What ``undo`` takes back."""

    entity: str
    record_id: str
    #: Fields that are taken back; empty for the whole record.
    fields: Tuple[str, ...]
    left: Tuple[LeftField, ...]
    #: The mutation that takes them back; ``None`` for a dry run.
    mutation: Optional[Receipt]


@dataclass(frozen=True)
class LineResult:
    """Result of one mutation of ``enqueue_many``: either ``id`` or ``error`` is set."""

    #: Its place among the mutations, from 1.
    number: int
    mutation: Mutation
    key: str
    id: Optional[str] = None
    state: Optional[str] = None
    is_repeat: bool = False
    kept: Mapping[str, Any] = field(default_factory=dict)
    #: The refusal. Later mutations were stored all the same.
    error: Optional[EdgeSyncError] = None


@dataclass(frozen=True)
class MutationItem:
    """A mutation and its state."""

    id: str
    seq: int
    entity: str
    record_id: str
    action: str
    #: The agent's word; :attr:`outcome` groups the states.
    state: str
    priority: str
    attempts: int
    created_at: Optional[datetime.datetime]
    next_attempt_at: Optional[datetime.datetime]
    #: Code of the reason why it waits now, and until when.
    deferred: Optional[str]
    deferred_until: Optional[datetime.datetime]
    problem: Optional[Problem]
    app: Optional[str]
    author: Optional[str]
    #: Id of the mutation that this one was merged into. ``state`` is that one's.
    into: Optional[str]
    #: Id of the mutation that this one takes the place of.
    supersedes: Optional[str]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def outcome(self) -> Outcome:
        """The state in one word. A state of a newer agent counts as open."""
        return _outcomes.get(self.state, Outcome.OPEN)

    def require_delivered(self) -> "MutationItem":
        """Returns the item itself.

        :raises NotDelivered: The mutation has another outcome; with its code, sentence and field.
        """
        if self.outcome is Outcome.DELIVERED:
            return self
        code, sentence = self.state, f"the mutation {self.id} is {self.state}"
        fields: Tuple[FieldError, ...] = ()
        if self.problem is not None:
            code, fields = self.problem.code, self.problem.fields
            sentence = f"{sentence}: {self.problem.sentence}"
        raise NotDelivered(sentence, self, code, fields, _next_steps[self.outcome].format(id=self.id))


_next_steps = {
    Outcome.OPEN: "see why it waits: agentctl why {id}",
    Outcome.DELIVERED: "",
    Outcome.CONFLICT: "decide it: agentctl conflicts",
    Outcome.REJECTED: "correct it: agentctl rejected show {id}",
    Outcome.PARKED: "decide about it: agentctl rejected show {id}",
    Outcome.EXPIRED: "write the change again if it is still of use",
    Outcome.CANCELLED: "write the change again if it was taken back by mistake",
    Outcome.DISCARDED: "write the change again if it is still of use",
    Outcome.SUPERSEDED: "read the record",
}


# MARK: Records


@dataclass(frozen=True)
class Record:
    """A record of the local mirror."""

    entity: str
    id: str
    #: Version of the hub's record; 0 before the hub has one.
    version: int
    #: ``synced``, ``pending``, ``conflict`` or ``error``.
    sync_status: str
    is_deleted: bool
    #: The document; ``None`` when there is none in this view.
    data: Optional[Dict[str, Any]]
    #: The hub's document, with the view ``both``.
    base: Optional[Dict[str, Any]]
    #: Tag of this state, for ``Mutation.if_match``.
    etag: str
    server_id: Optional[str]
    synced_at: Optional[datetime.datetime]
    created_at: Optional[datetime.datetime]
    updated_at: Optional[datetime.datetime]
    #: Ids of the open mutations.
    pending: Tuple[str, ...]
    #: Id of the conflict that waits for a decision.
    conflict: Optional[str]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def files(self, name: Optional[str] = None) -> Tuple[Placeholder, ...]:
        """The files that the document shows, in its order.

        :param name: Only those of this top-level field.
        """
        return tuple(it for it in _placeholders(self.data or {}) if name is None or it.field == name)


@dataclass(frozen=True)
class Entity:
    """A type of record that the device has."""

    name: str
    #: ``record``, ``event`` or ``reference``.
    kind: str
    #: ``write``, ``append`` or ``read``.
    access: str
    records: int
    #: Open mutations.
    pending: int
    #: Seconds since the mirror last had all news of the hub; ``None`` before the first time.
    cursor_age_seconds: Optional[int]
    #: Merge rule of the record as a whole; ``None`` if the agent does not say it.
    strategy: Optional[str] = None
    #: Merge rules of single fields, by field.
    field_strategies: Mapping[str, str] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class IndexUse:
    """An index of an entity and how far it is built."""

    index: str
    #: 100 when the index can be used.
    percent: int


@dataclass(frozen=True)
class QueryExplanation:
    """The way in which the agent reads the records of a query."""

    entity: str
    #: ``id``, ``index``, ``open_mutations`` or ``scan``.
    way: str
    #: The index that the query uses.
    index: Optional[str]
    #: The condition selects a part of the index.
    is_filtered: bool
    #: The index has the order of the query.
    is_ordered: bool
    #: Records that were read for the first page.
    read: int
    #: Records of them that match.
    found: int
    #: The query ran out of its time.
    is_cut_off: bool
    #: Records of the entity.
    records: int
    indexes: Tuple[IndexUse, ...]
    #: The index that would make the query quick.
    suggestion: Optional[str]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


# MARK: Forms


@dataclass(frozen=True)
class NamedForm:
    """The form that a record names."""

    #: ``judged``, ``absent`` (not on this device), ``unusable``, or ``none``: the record names no form.
    state: str
    id: Optional[str] = None
    #: ``None`` if the record names no version, or if the entity has no versions of its forms.
    version: Optional[str] = None
    #: Reason why the form has not judged the record, as a sentence for people.
    reason: Optional[str] = None


class FormCounts(NamedTuple):
    """Numbers of visible questions."""

    questions: int
    answered: int
    required: int
    #: Required questions without an answer.
    missing: int
    #: Answered ones of the required questions, rounded down: 100 exactly if nothing is missing.
    percent: int


@dataclass(frozen=True)
class FormSection:
    """How far a section of a form is."""

    id: str
    title: Optional[str]
    #: The condition of the section holds. Otherwise it has no questions.
    applies: bool
    counts: FormCounts


@dataclass(frozen=True)
class Progress:
    """How far a record is by its form."""

    entity: str
    #: Id of the record.
    id: str
    form: NamedForm
    #: Title of the form.
    title: Optional[str]
    #: The record says that it is complete, by the rule ``complete`` of its entity.
    says_complete: bool
    #: Nothing is missing; ``None`` unless the form has judged the record.
    is_complete: Optional[bool]
    #: Numbers of the whole form; ``None`` unless the form has judged the record.
    counts: Optional[FormCounts]
    sections: Tuple[FormSection, ...]
    #: What is missing, with pointers into the record such as ``/photos``.
    holes: Tuple[FieldError, ...]
    #: Answers of a wrong kind, with pointers into the record.
    faults: Tuple[FieldError, ...]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def percent(self) -> Optional[int]:
        """Percentage of the whole form; ``None`` unless the form has judged the record."""
        return None if self.counts is None else self.counts.percent


# MARK: Conflicts


@dataclass(frozen=True)
class ConflictSide:
    """One side of a disputed field."""

    #: This side has the field; ``value`` can be null.
    has_value: bool
    value: Any
    is_deleted: bool
    author: Optional[str]
    device: Optional[str]
    at: Optional[datetime.datetime]


@dataclass(frozen=True)
class ConflictField:
    name: str
    base: Any
    local: ConflictSide
    remote: ConflictSide


@dataclass(frozen=True)
class Conflict:
    """Two sides changed the same, and a person must decide."""

    id: str
    entity: str
    record_id: str
    #: Id of the mutation that is in dispute.
    mutation: Optional[str]
    #: ``field``, ``delete_update`` or ``update_delete``.
    kind: str
    #: ``open``, ``stale`` (open, and the hub's side has changed since), ``resolving``, ``resolved`` or ``moot``.
    state: str
    opened_at: Optional[datetime.datetime]
    #: Argument ``expect_remote_version`` for ``resolve_conflict``.
    remote_version: int
    fields: Tuple[ConflictField, ...]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


# MARK: Files


class BlobLink(NamedTuple):
    """A field of a record that shows a file."""

    entity: str
    record_id: str
    field: str


@dataclass(frozen=True)
class Blob:
    """A file that the agent has taken in, or that it fetches from the hub."""

    id: str
    #: ``sha256:`` and 64 hexadecimal digits.
    digest: str
    size: int
    type: str
    filename: str
    #: ``pending``, ``uploading``, ``verifying``, ``uploaded``, ``failed`` or ``missing``; of a file from the hub
    #: ``fetching``, ``fetched`` or ``failed``.
    state: str
    #: Bytes that the server has; of a file from the hub, bytes that are on this device.
    offset: int
    attempts: int
    links: Tuple[BlobLink, ...]
    #: The server has shown that it has these very bytes.
    is_verified: bool
    #: The bytes are on this device.
    is_kept: bool
    deferred: Optional[str]
    deferred_until: Optional[datetime.datetime]
    #: Reason why the last attempt failed.
    error: Optional[str]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    #: ``up``: an app of this device brought it. ``down``: it comes from the hub.
    direction: str = "up"
    #: Its bytes do not leave this device when others need room.
    is_pinned: bool = False


@dataclass(frozen=True)
class Placeholder:
    """The value that stands for a file in a record: ``{"$blob": "sha256:9b1c…", "size": 3145728, …}``."""

    #: Top-level field of the record that shows the file.
    field: str
    #: ``sha256:`` and 64 hexadecimal digits.
    digest: str
    #: Bytes of the file; 0 if the placeholder does not say.
    size: int
    #: Media type.
    type: str
    #: The hub has the file, so each device that has the record can fetch it.
    is_uploaded: bool
    raw: Mapping[str, Any] = dataclass_field(default_factory=dict, repr=False, compare=False)


def _placeholders(data: Mapping[str, Any]) -> Iterator[Placeholder]:
    for name, value in data.items():
        for part in value if isinstance(value, list) else [value]:
            if not isinstance(part, dict) or not isinstance(part.get("$blob"), str):
                continue
            size, type = part.get("size"), part.get("type")
            yield Placeholder(
                name,
                part["$blob"],
                size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else 0,
                type if isinstance(type, str) else "application/octet-stream",
                part.get("state") == "uploaded",
                part,
            )


# MARK: The feed


@dataclass(frozen=True)
class Event:
    """Something happened. ``position`` resumes the feed after this event: ``follow(after=event.position)``."""

    position: int
    #: The agent's word for the kind of event.
    type: str
    #: The event as the agent sent it.
    raw: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Reload(Event):
    """The feed begins here, so read now what the app needs: what was before is not in the feed.

    The first event of a feed without ``after`` is this one. It comes again when a position is older than what the agent
    keeps (50,000 events, 30 days); ``is_gap`` is ``True`` then.
    """

    is_gap: bool


@dataclass(frozen=True)
class RecordChanged(Event):
    """A record of the mirror has changed; :meth:`edgesync.Client.record` reads it."""

    entity: str
    id: str
    is_deletion: bool
    #: The change came from the hub, not from an app of this device.
    is_remote: bool
    version: int
    sync_status: str
    #: The record has left the share of this device, and others may still have it; ``is_deletion`` is ``True`` as well.
    is_revoked: bool = False


@dataclass(frozen=True)
class MutationChanged(Event):
    """A mutation has a new state."""

    id: str
    seq: int
    state: str
    entity: str
    record_id: str
    problem: Optional[Problem]
    into: Optional[str]


@dataclass(frozen=True)
class ConflictChanged(Event):
    """A conflict was opened, or has a new state."""

    id: str
    entity: str
    record_id: str
    state: str
    fields: Tuple[str, ...]


@dataclass(frozen=True)
class BlobChanged(Event):
    """A file has a new state, or the server has more of it."""

    id: str
    state: str
    offset: int
    size: int


# MARK: The agent itself


@dataclass(frozen=True)
class Cause:
    """The one cause that holds the work back now."""

    code: str
    sentence: str
    until: Optional[datetime.datetime]
    #: Command that removes the cause.
    command: Optional[str]


@dataclass(frozen=True)
class Status:
    """Status of the agent; ``raw`` is the whole document."""

    #: ``ok``, ``degraded`` or ``attention``.
    level: str
    reasons: Tuple[str, ...]
    #: ``offline``, ``connecting``, ``captive``, ``degraded``, ``auth`` or ``online``.
    connectivity: str
    version: str
    device: str
    #: ``None``: nothing holds the work back.
    cause: Optional[Cause]
    #: Mutations that wait to be sent.
    pending: int
    #: Mutations that the hub refused, or that are parked: they wait for a person.
    refused: int
    #: Mutations that this device ever accepted.
    enqueued: int
    #: Conflicts that wait for a decision.
    conflicts: int
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Readiness:
    """State of the first download. Reading and writing work before it is complete."""

    is_ready: bool
    #: Code of the reason: ``waiting`` or ``seeding``.
    reason: Optional[str]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Situation:
    """The facts by which the agent decides what may go."""

    #: ``offline``, ``connecting``, ``captive``, ``degraded``, ``auth`` or ``online``.
    reachability: str
    #: Name of the link that carries the sync.
    uplink: Optional[str]
    is_metered: bool
    is_roaming: bool
    #: ``ample``, ``saver``, ``low`` or ``exhausted``.
    power: str
    #: ``open``, ``soft``, ``reserve`` or ``spent``.
    budget: str
    is_paused: bool
    #: The agent lets the hub rest after failures.
    is_breaker_open: bool
    #: The present time is inside the time window of the configuration.
    is_window_open: bool
    battery_percent: Optional[int] = None
    budget_left_bytes: Optional[int] = None
    #: Time of the next attempt after a failure.
    retry_at: Optional[datetime.datetime] = None


@dataclass(frozen=True)
class Why:
    """The reason why a mutation or a file waits, or its outcome."""

    id: str
    state: str
    #: ``allow``, ``defer``, ``sent``, ``settled``, ``parked`` or ``conflict``.
    verdict: str
    sentence: str
    reason: Optional[str]
    until: Optional[datetime.datetime]
    expires_at: Optional[datetime.datetime]
    #: Changes of the situation, each of which would let it go.
    would_change: Tuple[str, ...]
    #: Command for the next step.
    command: Optional[str]
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    #: Code of the cause, as in :attr:`Status.cause`.
    cause: Optional[str] = None
    #: The row of the policy that decided.
    rule: Optional[str] = None
    #: Further facts, a sentence each.
    also: Tuple[str, ...] = ()
    #: The facts behind the verdict.
    situation: Optional[Situation] = None


class PlannedItem(NamedTuple):
    """A mutation or a file that would be sent."""

    id: str
    bytes: int


@dataclass(frozen=True)
class PlannedSend:
    """Work of one class of traffic that would be sent."""

    #: ``critical``, ``normal``, ``bulk``, ``pull`` and so on.
    traffic_class: str
    count: int
    bytes: int
    #: The first 200 of them.
    items: Tuple[PlannedItem, ...]


@dataclass(frozen=True)
class PlannedWait:
    """Work of one class of traffic that would wait, for one reason."""

    traffic_class: str
    count: int
    bytes: int
    #: Code of the reason.
    reason: str
    until: Optional[datetime.datetime]
    sentence: str
    #: Code of the cause, as in :attr:`Status.cause`.
    cause: Optional[str]
    #: Command that removes the cause.
    command: Optional[str]


@dataclass(frozen=True)
class Plan:
    """The work that would go and the work that would wait in a situation."""

    would_send: Tuple[PlannedSend, ...]
    would_defer: Tuple[PlannedWait, ...]
    situation: Situation
    #: Bytes of all that would be sent.
    bytes_total: int
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Budget:
    """Bytes of a link for a day or a month."""

    used: int
    limit: int
    #: ``open``, ``soft``, ``reserve`` or ``spent``.
    level: Optional[str]
    resets_at: Optional[datetime.datetime]


class Probe(NamedTuple):
    """A trial of the hub over a link."""

    at: Optional[datetime.datetime]
    result: str


@dataclass(frozen=True)
class Link:
    """A network interface, its state and its cost."""

    name: str
    #: ``ethernet``, ``wlan``, ``wwan`` and so on.
    kind: Optional[str]
    #: ``absent``, ``down``, ``carrier``, ``addressed``, ``routed``, ``reachable``, ``portal`` or ``limited``.
    state: str
    is_metered: bool
    #: Code of the evidence for ``is_metered``, such as ``config`` or ``hint``.
    metered_by: Optional[str]
    is_roaming: bool
    addresses: Tuple[str, ...]
    #: Milliseconds of a round trip to the hub.
    rtt_ms: Optional[int]
    rate_bytes_per_second: Optional[int]
    last_probe: Optional[Probe]
    #: Budgets by period: ``day``, ``month``.
    budgets: Mapping[str, Budget]
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Links:
    """The network interfaces of the machine."""

    items: Tuple[Link, ...]
    #: Name of the link that carries the sync.
    uplink: Optional[str]
    #: The cause that holds the work back; ``None``: nothing holds it back.
    cause: Optional[Cause]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class UsageItem:
    """Bytes of one link, one day or month, and one class of traffic."""

    link: str
    #: ``2026-11-26``, or ``2026-11`` with ``by="month"``. Days are those of UTC.
    period: str
    #: ``push``, ``pull``, ``hello``, ``probe`` or ``blobs``.
    traffic_class: str
    up: int
    down: int
    requests: int


@dataclass(frozen=True)
class Usage:
    """The bytes that went over each link, oldest first."""

    items: Tuple[UsageItem, ...]
    #: Budgets by link and period: ``usage.budgets["wwan0"]["month"]``.
    budgets: Mapping[str, Mapping[str, Budget]]
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class SyncResult:
    """A sync that was started, or its result."""

    #: Id of the cycle; empty if no cycle runs yet.
    cycle: str
    #: ``ok``, ``failed`` or ``deferred``; ``None`` if the cycle has not ended.
    result: Optional[str]
    #: Sentence for people about ``result``.
    detail: Optional[str]
    #: Mutations that were sent.
    pushed: int
    #: Records that came from the hub.
    pulled: int
    #: Code of the reason for each class of traffic that waits.
    deferred: Mapping[str, str]
    bytes_up: int
    bytes_down: int
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class PauseState:
    """Says whether the sync is paused."""

    is_paused: bool
    #: End of the pause; ``None``: it lasts until ``resume``.
    until: Optional[datetime.datetime]
    reason: str
    #: Number of the user who paused the sync.
    uid: Optional[int]


@dataclass(frozen=True)
class Setting:
    """The value of one key of the configuration."""

    value: Any
    #: ``default``, ``file`` or ``server``.
    origin: str
    #: File and line.
    place: Optional[str]


@dataclass(frozen=True)
class Configuration:
    """The configuration that is in force."""

    version: int
    #: Settings by key: ``configuration.values["hub.url"].value``.
    values: Mapping[str, Setting]


class ConfigurationChange(NamedTuple):
    """The keys that a reload has changed."""

    changed: Tuple[str, ...]
    #: Keys whose new value takes effect at the next start of the agent.
    restart_needed: Tuple[str, ...]


@dataclass(frozen=True)
class Decision:
    """An entry of the audit trail: a decision of a person or an app."""

    #: Its place in the trail.
    number: int
    at: Optional[datetime.datetime]
    #: Number of the user who decided.
    uid: int
    #: The action, such as ``pause``, ``resume``, ``undo`` or ``force``.
    verb: str
    #: Id of the mutation, the conflict or the file; empty if the action has none.
    target: str
    details: Mapping[str, Any]
