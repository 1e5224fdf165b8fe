"""Every request of the API as a value: what is sent, and whether it may be sent twice."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union
from urllib.parse import quote

from ..errors import InvalidArgument
from ..values import Mutation
from ..where import Condition
from . import http, jsontext, limits

JSON = "application/json"
LINES = "application/x-ndjson"
EVENTS = "text/event-stream"


@dataclass(frozen=True)
class FileBody:
    """The body is the caller's file. ``size`` is ``None`` where its length is not known before its end."""

    size: Optional[int]


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    fields: Mapping[str, str] = field(default_factory=dict)
    body: Union[bytes, FileBody] = b""
    #: The agent applies it at most once, however often it comes.
    is_repeatable: bool = True
    #: A descriptor that goes with the head.
    descriptor: Optional[int] = None
    #: Seconds without a byte in which the agent must answer.
    silence: float = limits.ANSWER_SILENCE_SECONDS
    #: Bytes of the head. They are made at once, so that a field that cannot be sent is told before there is a
    #: connection.
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "head", self.head_with({}))

    def head_with(self, fields: Mapping[str, str]) -> bytes:
        """The head with further fields, such as those that every request of one client has."""
        length = self.body.size if isinstance(self.body, FileBody) else len(self.body)
        return http.head(self.method, self.target, {**self.fields, **fields}, length)

    @property
    def doing(self) -> str:
        """For sentences: ``GET /v1/status``."""
        return f"{self.method} {self.target.partition('?')[0]}"


def path(*segments: str) -> str:
    for segment in segments:
        if not isinstance(segment, str) or not segment:
            raise InvalidArgument(f"{segment!r} is not a name: it must be text, and not empty")
    return "/v1/" + "/".join(quote(segment, safe=":,") for segment in segments)


Parameter = Tuple[str, Union[None, str, int, bool, Sequence[str]]]


def get(target: str, *parameters: Parameter, fields: Optional[Mapping[str, str]] = None) -> Request:
    return Request("GET", target + _query(parameters), fields or {})


def _query(parameters: Iterable[Parameter]) -> str:
    parts: List[str] = []
    for name, value in parameters:
        if value is None or value is False:
            continue
        if value is True:
            text = "true"
        elif isinstance(value, (str, int)):
            text = str(value)
        else:
            text = ",".join(value)
        parts.append(f"{name}={quote(text, safe=':,')}")
    return "?" + "&".join(parts) if parts else ""


def post(
    target: str, body: Mapping[str, Any], *, is_repeatable: bool, silence: float = limits.ANSWER_SILENCE_SECONDS
) -> Request:
    return Request("POST", target, {"Content-Type": JSON}, jsontext.encode(dict(body)), is_repeatable, silence=silence)


# MARK: Versions of schemas


def schema_fields(schemas: Optional[Mapping[str, int]]) -> Dict[str, str]:
    """The field ``Schema: audits=1, sites=2``, in which an app says in which versions of schemas it writes and reads.

    :raises InvalidArgument: The agent could not read it.
    """
    if not schemas:
        return {}
    if len(schemas) > limits.SCHEMAS:
        raise InvalidArgument(
            f"one client names versions of at most {limits.SCHEMAS} entities, and not of {len(schemas)}"
        )
    for entity, version in schemas.items():
        if not isinstance(entity, str) or not _identifier.match(entity):
            raise InvalidArgument(
                f"{entity!r} cannot be the name of an entity: expected 1 to 64 of the characters A-Z a-z 0-9 . _ : -"
            )
        if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= limits.SCHEMA_VERSION:
            raise InvalidArgument(
                f"the version of the schema of {entity} is {version!r}, expected 1 to {limits.SCHEMA_VERSION}"
            )
    return {"Schema": ", ".join(f"{entity}={schemas[entity]:d}" for entity in sorted(schemas))}


_identifier = re.compile(r"[A-Za-z0-9._:-]{1,64}\Z")


# MARK: Mutations


def mutation_body(mutation: Mutation) -> Dict[str, Any]:
    """A mutation as the agent reads it, members in one fixed order: a repeated key needs the same bytes."""
    body: Dict[str, Any] = {"entity": mutation.entity}
    if mutation.record_id is not None:
        body["record_id"] = mutation.record_id
    body["action"] = mutation.action
    if mutation.data is not None:
        body["data"] = dict(mutation.data)
    if mutation.unset:
        body["unset"] = list(mutation.unset)
    if mutation.operations:
        body["ops"] = [{"field": name, "op": operator, "value": value} for name, operator, value in mutation.operations]
    if mutation.attachments:
        body["blobs"] = [{"field": name, "blob": blob} for name, blob in mutation.attachments]
    if mutation.priority is not None:
        body["priority"] = mutation.priority
    if mutation.if_match is not None:
        body["if_match"] = mutation.if_match
    if mutation.expect_version is not None:
        body["expect_version"] = mutation.expect_version
    if mutation.depends_on:
        body["depends_on"] = list(mutation.depends_on)
    if not mutation.coalesce:
        body["coalesce"] = False
    if mutation.ttl is not None:
        body["ttl"] = mutation.ttl
    if mutation.author is not None:
        body["author"] = mutation.author
    if mutation.durability is not None:
        body["durability"] = mutation.durability
    if mutation.schema is not None:
        body["schema"] = mutation.schema
    return body


def enqueue(mutation: Mutation, key: str) -> Request:
    return _keyed(mutation_body(mutation), key)


def enqueue_atomic(mutations: Sequence[Mutation], key: str) -> Request:
    if not 1 <= len(mutations) <= limits.ATOMIC_MUTATIONS:
        raise InvalidArgument(
            f"an atomic list has 1 to {limits.ATOMIC_MUTATIONS} mutations, and this one has {len(mutations)}"
        )
    for mutation in mutations:
        if mutation.key is not None:
            raise InvalidArgument("a member of an atomic list has no key: give one to enqueue_atomic")
    return _keyed({"atomic": True, "mutations": [mutation_body(mutation) for mutation in mutations]}, key)


def _keyed(body: Mapping[str, Any], key: str) -> Request:
    return Request(
        "POST",
        path("mutations"),
        {"Content-Type": JSON, "Idempotency-Key": key},
        jsontext.encode(dict(body)),
        is_repeatable=True,
    )


def line(mutation: Mutation, key: str) -> bytes:
    """A mutation as one line of a stream.

    The line does not hold its place in the stream, so that a repeat has the same bytes at another place.
    """
    return jsontext.encode({"idempotency_key": key, **mutation_body(mutation)}) + b"\n"


def enqueue_lines(lines: Sequence[bytes]) -> Request:
    return Request("POST", path("mutations", "bulk"), {"Content-Type": LINES}, b"".join(lines), is_repeatable=True)


def mutation(id: str) -> Request:
    return get(path("mutations", id))


def mutations(
    states: Sequence[str], entity: Optional[str], record_id: Optional[str], app: Optional[str], after: Optional[str]
) -> Request:
    return get(
        path("mutations"),
        ("state", states or None),
        ("entity", entity),
        ("record_id", record_id),
        ("app", app),
        ("after", after),
        ("limit", limits.PAGE_ITEMS),
    )


def cancel(id: str) -> Request:
    return Request("DELETE", path("mutations", id))


def undo(id: str, dry_run: bool) -> Request:
    # A second one is refused, so that a repeat would hide the answer of the first.
    return post(path("mutations", id, "undo"), {"dry_run": True} if dry_run else {}, is_repeatable=dry_run)


def retry(id: str, data: Optional[Mapping[str, Any]], without: Sequence[str], cascade: bool) -> Request:
    body: Dict[str, Any] = {} if data is None else {"data": dict(data)}
    if without:
        body["without"] = list(without)
    if cascade:
        body["cascade"] = True
    return post(path("mutations", id, "retry"), body, is_repeatable=False)


def discard(id: str, reason: str) -> Request:
    return post(path("mutations", id, "discard"), {"reason": reason} if reason else {}, is_repeatable=False)


# MARK: Records


def record(entity: str, id: str, view: str, *, fetch: bool = False, unless: Optional[str] = None) -> Request:
    fields = {} if unless is None else {"If-None-Match": unless}
    shown = None if view == "merged" else view
    return get(path("records", entity, id), ("view", shown), ("fetch", "1" if fetch else None), fields=fields)


def progress(entity: str, id: str) -> Request:
    return get(path("records", entity, id, "progress"))


def records(
    entity: str,
    where: Optional[Condition],
    sort: Sequence[str],
    fields: Sequence[str],
    include_deleted: bool,
    sync_status: Sequence[str],
    cursor: Optional[str],
    explain: bool = False,
) -> Request:
    body: Dict[str, Any] = {"entity": entity, "limit": limits.PAGE_ITEMS}
    if where is not None:
        body["where"] = where.tree
    if sort:
        body["sort"] = list(sort)
    if fields:
        body["fields"] = list(fields)
    if include_deleted:
        body["include_deleted"] = True
    if sync_status:
        body["sync_status"] = list(sync_status)
    if cursor is not None:
        body["cursor"] = cursor
    if explain:
        body["explain"] = True
    return post(path("query"), body, is_repeatable=True)


# MARK: Conflicts


def conflicts(states: Sequence[str], entity: Optional[str], after: Optional[str]) -> Request:
    return get(
        path("conflicts"), ("state", states or None), ("entity", entity), ("after", after), ("limit", limits.PAGE_ITEMS)
    )


def resolve_conflict(
    id: str,
    choice: Optional[str],
    fields: Optional[Mapping[str, Any]],
    comment: Optional[str],
    author: Optional[str],
    expect_remote_version: Optional[int],
) -> Request:
    body: Dict[str, Any] = {}
    if choice is not None:
        body["choice"] = choice
    if fields is not None:
        body["fields"] = dict(fields)
    if comment is not None:
        body["comment"] = comment
    if author is not None:
        body["author"] = author
    if expect_remote_version is not None:
        body["expect_remote_version"] = expect_remote_version
    return post(path("conflicts", id, "resolve"), body, is_repeatable=False)


# MARK: Files


def add_blob_stream(filename: Optional[str], type: str, size: Optional[int]) -> Request:
    # Equal bytes are one file to the agent, so a repeat brings back the file of the first try.
    return Request(
        "POST",
        path("blobs") + _query([("filename", filename)]),
        {"Content-Type": type},
        FileBody(size),
        silence=limits.FILE_SECONDS,
    )


def add_blob_descriptor(filename: Optional[str], type: str, descriptor: int) -> Request:
    return Request(
        "POST",
        path("blobs") + _query([("filename", filename)]),
        {"Content-Type": type, "Blob-Source": "fd"},
        descriptor=descriptor,
        silence=limits.FILE_SECONDS,
    )


def add_blob_path(filename: Optional[str], type: str, file: str) -> Request:
    return Request(
        "POST",
        path("blobs") + _query([("filename", filename), ("type", type)]),
        {"Content-Type": JSON, "Blob-Source": "path"},
        jsontext.encode({"path": file}),
        silence=limits.FILE_SECONDS,
    )


def blobs(states: Sequence[str], after: Optional[str]) -> Request:
    return get(path("blobs"), ("state", states or None), ("after", after), ("limit", limits.PAGE_ITEMS))


def blob_content(name: str, offset: int, wait: int) -> Request:
    """The bytes of a file from ``offset``. The agent waits ``wait`` seconds for one that comes from the hub."""
    return Request(
        "GET",
        path("blobs", name, "content") + _query([("wait", f"{wait}s" if wait else None)]),
        {"Range": f"bytes={offset}-"} if offset else {},
        silence=limits.ANSWER_SILENCE_SECONDS + wait,
    )


# MARK: The feed


def events(types: Sequence[str], entity: Optional[str], after: Optional[int]) -> Request:
    fields = {"Accept": EVENTS}
    if after is not None:
        fields["Last-Event-ID"] = str(after)
    request = get(path("events"), ("types", types or None), ("entity", entity), fields=fields)
    return Request(request.method, request.target, request.fields, silence=limits.FEED_SILENCE_SECONDS)


# MARK: The agent itself


def plan(
    link: Optional[str],
    metered: Optional[bool],
    roaming: Optional[bool],
    battery: Optional[int],
    charging: Optional[bool],
    budget: Union[None, int, str],
    online: Optional[bool],
) -> Request:
    body = {
        "link": link,
        "metered": metered,
        "roaming": roaming,
        "battery": battery,
        "charging": charging,
        "budget": budget,
        "online": online,
    }
    named = {name: value for name, value in body.items() if value is not None}
    return post(path("plan"), named, is_repeatable=True)


Day = Union[None, str, datetime.date]


def usage(link: Optional[str], first_day: Day, last_day: Day, by: str) -> Request:
    return get(path("usage"), ("link", link), ("from", _day(first_day)), ("to", _day(last_day)), ("by", by))


def _day(day: Day) -> Optional[str]:
    if isinstance(day, datetime.datetime):
        raise InvalidArgument("a day is a date, and not a time")
    return day.isoformat() if isinstance(day, datetime.date) else day


def sync(scope: str, force: bool, wait: bool, accept_deletions: bool) -> Request:
    # A second sync finds nothing to do, so a repeat does no harm.
    body: Dict[str, Any] = {"scope": scope}
    if force:
        body["force"] = True
    if wait:
        body["wait"] = True
    if accept_deletions:
        body["accept_deletions"] = True
    silence = limits.SYNC_SECONDS if wait else limits.ANSWER_SILENCE_SECONDS
    return post(path("sync"), body, is_repeatable=True, silence=silence)


def pause(reason: str, until: Optional[datetime.datetime]) -> Request:
    body: Dict[str, Any] = {}
    if until is not None:
        if until.tzinfo is None:
            raise InvalidArgument("the time has no time zone", "until")
        utc = until.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        body["until"] = utc.isoformat(timespec="milliseconds") + "Z"
    if reason:
        body["reason"] = reason
    return post(path("pause"), body, is_repeatable=True)


def resume() -> Request:
    return post(path("resume"), {}, is_repeatable=True)


def reload_configuration() -> Request:
    return Request("POST", path("config", "reload"))


def audit(after: Optional[str]) -> Request:
    return get(path("audit"), ("after", after), ("limit", limits.PAGE_ITEMS))
