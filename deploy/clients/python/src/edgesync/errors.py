"""The errors of this package, as typed exceptions.

Each exception says four things: the ``code`` for programs, the ``sentence`` for people, the ``field`` of the request
that it is about, and the ``next_step``. An answer of the agent that is a refusal becomes a subclass of
:class:`Refused`; the table at the end of this file maps the agent's codes to them. A code of a newer agent becomes a
plain :class:`Refused`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Type


class FieldError(NamedTuple):
    """One part of a request that the agent does not accept."""

    #: JSON pointer (RFC 6901) into the body that was sent: ``/data/status``. Empty: the body as a whole.
    pointer: str
    sentence: str


class EdgeSyncError(Exception):
    """The base of every exception of this package."""

    #: For programs; stable.
    code: str = "error"
    #: Next step for every error of this class, unless the error itself names another one.
    advice: str = ""
    #: The same call may succeed a moment later without a change.
    is_transient: bool = False

    def __init__(self, sentence: str, fields: Tuple[FieldError, ...] = (), next_step: str = "") -> None:
        super().__init__(sentence)
        #: Sentence for people: the cause.
        self.sentence = sentence
        #: All parts of the request that the error names.
        self.fields = fields
        #: Sentence for people: the next step.
        self.next_step = next_step or self.advice
        #: The request that failed: ``POST /v1/mutations``. Empty: no request was made.
        self.doing = ""

    @property
    def field(self) -> Optional[str]:
        """JSON pointer to the first part of the request that the error names."""
        return self.fields[0].pointer if self.fields else None

    def __str__(self) -> str:
        text = f"{self.doing}: " if self.doing else ""
        text += f"{self.sentence} ({self.code})"
        return f"{text}. Next step: {self.next_step}" if self.next_step else text


# MARK: Before and below an answer


class InvalidArgument(EdgeSyncError, ValueError):
    """A value that was given to this package cannot be sent. No request was made."""

    code = "invalid-argument"
    advice = "correct the value"

    def __init__(self, sentence: str, field: str = "") -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence, (FieldError(field, sentence),))


class Unreachable(EdgeSyncError):
    """No agent accepts connections at the socket."""

    code = "unreachable"
    advice = "start agentd, or correct the path of the socket (AGENTD_SOCKET)"
    is_transient = True


class NoSocket(Unreachable):
    """There is no file at the path of the socket: the path is wrong, or agentd was not started yet."""

    code = "no-socket"


class SocketNotPermitted(EdgeSyncError):
    """The operating system does not let this user open the socket."""

    code = "socket-not-permitted"
    advice = "add this user to the group of the socket (sudo adduser USER agentd) and start the app again"


class BrokenAnswer(EdgeSyncError):
    """The connection ended, or fell silent, before the answer was complete. The request may have taken effect."""

    code = "broken-answer"
    advice = "repeat the call with the same key; the agent applies it once"
    is_transient = True


class BadAnswer(EdgeSyncError):
    """The answer is not one of an agent: it breaks HTTP, is not JSON, or lacks what it must have."""

    code = "bad-answer"
    advice = "check that agentd, and no other program, listens at the socket, and that its version fits this package"


class DigestMismatch(BadAnswer):
    """The bytes of a file are not the ones that its digest names."""

    code = "digest-mismatch"
    advice = "read the file again; if it stays so, run: agentctl doctor"


class DeadlinePassed(EdgeSyncError):
    """The deadline of the call passed before there was an answer. A request that was sent may have taken effect."""

    code = "deadline-passed"
    advice = "repeat the call with the same key; the agent applies it once"


# MARK: Mutations that did not arrive


class NotDelivered(EdgeSyncError):
    """A mutation came to rest without being delivered; see :meth:`edgesync.MutationItem.require_delivered`."""

    code = "not-delivered"
    advice = "run: agentctl mutations show ID"

    def __init__(
        self, sentence: str, item: Any = None, code: str = "", fields: Tuple[FieldError, ...] = (), next_step: str = ""
    ) -> None:
        super().__init__(sentence, fields, next_step)
        self.code = code or self.code
        #: The :class:`edgesync.MutationItem`.
        self.item = item


# MARK: Answers that are refusals


class Refused(EdgeSyncError):
    """The agent answered no. The classes below say what that means for each of its codes."""

    code = "refused"

    def __init__(
        self,
        sentence: str,
        *,
        code: str = "",
        status: int = 0,
        fields: Tuple[FieldError, ...] = (),
        retry_after: Optional[int] = None,
        members: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(sentence, fields)
        self.code = code or self.code
        #: Status of the HTTP answer; 0 for a line of a stream of mutations.
        self.status = status
        #: Seconds after which another try makes sense.
        self.retry_after = retry_after
        #: Further members of the answer, such as the present ``etag`` or the ``setting`` that sets a limit.
        self.members: Mapping[str, Any] = members or {}


def _text(members: Mapping[str, Any], name: str) -> Optional[str]:
    value = members.get(name)
    return value if isinstance(value, str) else None


def _number(members: Mapping[str, Any], name: str) -> Optional[int]:
    value = members.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class Malformed(Refused):
    """The request has a form that the agent does not know."""

    code = "malformed"
    advice = "correct the request; it changed nothing"


class UnknownMember(Malformed):
    """The request has a member that does not exist; most often it is misspelt."""

    code = "unknown-member"


class Forbidden(Refused):
    """The access rules do not let this user do that."""

    code = "forbidden"
    advice = "ask for a higher role under `access` in the agent's configuration"


class EntityNotAllowed(Forbidden):
    """The access rules do not give this user the entity, or the entity is read only."""

    code = "entity-not-allowed"
    advice = "ask for the entity under `access` in the agent's configuration"


class NotFound(Refused):
    """There is no such record, mutation, file or conflict."""

    code = "not-found"
    advice = "check the name"

    def __init__(self, sentence: str, **options: Any) -> None:
        super().__init__(sentence, **options)
        command = self.members.get("list")
        if isinstance(command, str):
            self.next_step = f"see what is there: {command}"


class UnknownEntity(NotFound):
    """Neither this device nor its hub knows the entity."""

    code = "unknown-entity"
    advice = "check the name of the entity, or name it under `entities` in the agent's configuration"


class MethodNotAllowed(Refused):
    """The agent does not offer that at this path; its version is another one."""

    code = "method-not-allowed"
    advice = "check that the agent's version fits this package"


class RequestTimeout(Refused):
    """The request did not arrive at the agent in time."""

    code = "timeout"
    advice = "send the whole request without pauses"
    is_transient = True


class AlreadyExists(Refused):
    """There is such a record already."""

    code = "exists"
    advice = "use the action `update` or `upsert`"


class Deleted(Refused):
    """The record was deleted."""

    code = "deleted"
    advice = "create the record again if it should come back"


class NotKept(Refused):
    """The device has dropped the document of the record to save space."""

    code = "not-kept"
    advice = "fetch the document with record(…, fetch=True) or agentctl get --fetch ENTITY ID, then repeat the call"


class AlreadySent(Refused):
    """The mutation was sent, or is settled, and cannot be taken back."""

    code = "already-sent"
    advice = "make another mutation that corrects it; ``undo`` takes back what the hub has"


class NotAccepted(Refused):
    """The hub does not have the mutation, so there is nothing to undo."""

    code = "not-accepted"
    advice = "cancel a mutation that was not sent yet; undo only what the hub has"


class AlreadyUndone(Refused):
    """Another mutation takes this one back already."""

    code = "already-undone"
    advice = "undo the mutation in ``members['by']`` to have this one again"


class NothingToUndo(Refused):
    """Nothing of the mutation is there that could be taken back."""

    code = "nothing-to-undo"
    advice = "make another mutation that corrects the record"


class AlreadyResolved(Refused):
    """The conflict is decided already."""

    code = "already-resolved"
    advice = "read the conflict again"


class VersionMismatch(Refused):
    """The record, or the other side of a conflict, has another version than expected."""

    code = "version-mismatch"
    advice = "read it again and decide anew"


class PreconditionFailed(Refused):
    """The record is not in the state that its author read. ``etag`` is the present state."""

    code = "precondition-failed"
    advice = "read the record again, decide anew, and send the etag of that read"

    @property
    def etag(self) -> Optional[str]:
        """The tag of the record's present state."""
        return _text(self.members, "etag")


class Linked(Refused):
    """A record shows the file, and the server does not have its bytes yet."""

    code = "linked"
    advice = "wait until the file is uploaded"


class BlobFetching(Refused):
    """The file has not come from the hub yet. It goes on coming without this call."""

    code = "blob-fetching"
    advice = "call again with a longer ``wait``; if it does not come, run: agentctl why ID"
    is_transient = True

    def __init__(self, sentence: str, **options: Any) -> None:
        super().__init__(sentence, **options)
        if self.blob is not None:
            self.next_step = f"call again with a longer wait; if it does not come, run: agentctl why {self.blob}"

    @property
    def blob(self) -> Optional[str]:
        """Id of the file."""
        return _text(self.members, "blob")

    @property
    def offset(self) -> Optional[int]:
        """Bytes of the file that are on this device."""
        return _number(self.members, "offset")

    @property
    def size(self) -> Optional[int]:
        """Bytes of the whole file."""
        return _number(self.members, "size")

    @property
    def reason(self) -> Optional[str]:
        """Code of the reason why the file waits, such as ``metered``; ``None`` if it is on its way."""
        return _text(self.members, "reason")


class BlobNotFetched(Refused):
    """The agent has given the file up: the hub does not give it, or there is no room for it."""

    code = "blob-not-fetched"
    advice = "try again with fetch_blob, or run: agentctl blobs fetch ID"

    @property
    def blob(self) -> Optional[str]:
        """Id of the file."""
        return _text(self.members, "blob")

    @property
    def cause(self) -> Optional[str]:
        """Code of the reason why it was set aside, if the agent names it."""
        return _text(self.members, "cause")


class KeyReused(Refused):
    """The idempotency key was used before, with another request."""

    code = "idempotency-mismatch"
    advice = "use a new key for a new mutation"


class Paused(Refused):
    """The sync is paused."""

    code = "paused"
    advice = "run: agentctl resume"


class TooLarge(Refused):
    """The request is larger than the agent accepts."""

    code = "too-large"
    advice = "make it smaller; large content belongs into a file"


def too_many_bytes(max: int) -> TooLarge:
    """A file that is larger than the call may hold in memory."""
    error = TooLarge(f"the file has more than {max} bytes")
    error.next_step = "read it in pieces, or save it to a path"
    return error


class UnsupportedMediaType(Refused):
    """The body is of another type than the agent reads."""

    code = "unsupported-media-type"
    advice = "check that the agent's version fits this package"


class ValidationFailed(Refused):
    """A value is not one that may be there."""

    code = "validation"
    advice = "correct the field that is named; nothing was changed"


class RateLimited(Refused):
    """This app asks too often, or reads too many feeds at the same time."""

    code = "rate"
    advice = "wait and try again"
    is_transient = True


class OutcomeUnknown(Refused):
    """A disk failed, so the agent does not know whether it stored the mutation."""

    code = "outcome-unknown"
    advice = "repeat the call with the same key, then read what is stored"
    is_transient = True


class InternalError(Refused):
    """The agent did not answer the request because of an internal error."""

    code = "internal"
    advice = "repeat the call with the same key; the agent's log tells more"
    is_transient = True


class Busy(Refused):
    """The agent has no free connection for this user."""

    code = "busy"
    advice = "close connections that are not needed, and try again"
    is_transient = True


class Starting(Refused):
    """The agent is starting, or its database is busy."""

    code = "starting"
    advice = "try again in a second"
    is_transient = True


class NotConfigured(Refused):
    """The agent has no configuration that it can work with."""

    code = "not-configured"
    advice = "correct the configuration (agentctl config check); agentd goes on by itself"


class ReadOnly(Refused):
    """The agent cannot write to its disk, or its copy of the record is damaged. Reading goes on."""

    code = "read-only"
    advice = "run: agentctl status"
    is_transient = True


class TooSlow(Refused):
    """A query would have taken longer than the agent allows."""

    code = "too-slow"
    advice = "ask for less: an index, a smaller entity, or a narrower condition; explain() tells what is slow"


class HubUnavailable(Refused):
    """The hub could not be asked for a record whose document the device does not keep."""

    code = "hub-unavailable"
    advice = "repeat the call when the hub can be reached; agentctl status tells more"


class QueueFull(Refused):
    """The outbox has as many open mutations, or as many bytes, as it may have."""

    code = "queue-full"
    advice = "wait until the hub has accepted some of it"

    def __init__(self, sentence: str, **options: Any) -> None:
        super().__init__(sentence, **options)
        setting = self.members.get("setting")
        if isinstance(setting, str):
            self.next_step = f"{self.advice}, or raise {setting}"


class DiskFull(Refused):
    """The agent's disk has no room."""

    code = "disk-full"
    advice = "free some space on the disk of the agent"


_classes: List[Type[Refused]] = [
    Malformed,
    UnknownMember,
    Forbidden,
    EntityNotAllowed,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    AlreadyExists,
    Deleted,
    NotKept,
    AlreadySent,
    NotAccepted,
    AlreadyUndone,
    NothingToUndo,
    AlreadyResolved,
    VersionMismatch,
    PreconditionFailed,
    Linked,
    BlobFetching,
    BlobNotFetched,
    KeyReused,
    Paused,
    TooLarge,
    UnsupportedMediaType,
    ValidationFailed,
    RateLimited,
    OutcomeUnknown,
    InternalError,
    Busy,
    Starting,
    NotConfigured,
    ReadOnly,
    TooSlow,
    HubUnavailable,
    QueueFull,
    DiskFull,
]

#: The one table: code of the agent, class of the exception.
REFUSALS: Dict[str, Type[Refused]] = {kind.code: kind for kind in _classes}
