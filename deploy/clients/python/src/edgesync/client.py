"""The client for ordinary code and threads."""

from __future__ import annotations

import contextlib
import datetime
import select
import threading
import time
from types import TracebackType
from typing import (
    Any,
    BinaryIO,
    Callable,
    Generator,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from .core import files, limits, operations, requests
from .core.effects import Connect, ConnectFailure, Effect, Emit, Fetch, Moved, Pause, Release, Steps, Transfer
from .core.exchange import Session
from .core.files import BlobName
from .core.retry import Environment
from .errors import too_many_bytes
from .sockets import IdleConnections, UnixConnection, failure, open_socket, socket_path
from .sources import Items, Path, Source, handed_over, opened, stream
from .targets import SavedFile, write_to
from .values import (
    Blob,
    Configuration,
    ConfigurationChange,
    Conflict,
    Decision,
    Entity,
    Event,
    LineResult,
    Links,
    Mutation,
    MutationItem,
    PauseState,
    Plan,
    Progress,
    QueryExplanation,
    Readiness,
    Receipt,
    Record,
    Status,
    SyncResult,
    Undone,
    Usage,
    Why,
)
from .where import Condition

T = TypeVar("T")


class Client:
    """The agent's API. Threads may share a client.

    Each call tries again by itself, with the same idempotency key, while the agent cannot be reached or is busy, until
    its deadline. A call that may not be repeated (``retry``, ``discard``, ``resolve_conflict``) is tried again only
    while nothing of it was done. All errors are :class:`edgesync.EdgeSyncError`.

    :param socket: Path of the agent's socket; the environment variable ``AGENTD_SOCKET``, or
        ``/run/agentd/agent.sock``.
    :param schemas: Version of the schema, from 1, in which this app writes and reads an entity, by entity; at most 100:
        ``{"audits": 1}``. The agent converts in both directions. An entity that is not named has the version that the
        agent's configuration gives to apps, or else the present one. A version that the agent does not accept refuses a
        call (:class:`edgesync.errors.ValidationFailed`, field ``/schema``).
    :param deadline: Seconds that a call may take, all its tries included, unless the call names its own deadline.
    :param environment: Clock, randomness and patience; for tests.
    :param sleep: Waits that many seconds; for tests.
    """

    def __init__(
        self,
        socket: Optional[Path] = None,
        *,
        schemas: Optional[Mapping[str, int]] = None,
        deadline: float = 30.0,
        environment: Optional[Environment] = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.socket_path = socket_path(socket)
        self._session = Session(
            self.socket_path, deadline, environment or Environment(), fields=requests.schema_fields(schemas)
        )
        # Fails for a deadline that is none.
        self._session.call()
        self._sleep = sleep
        self._idle = IdleConnections()
        self._places = threading.BoundedSemaphore(limits.CONNECTIONS)

    def close(self) -> None:
        """Closes the connections that are idle. Calls that are under way go on."""
        self._idle.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    # MARK: Mutations

    def enqueue(self, mutation: Mutation, *, deadline: Optional[float] = None) -> Receipt:
        """Stores one mutation.

        When it returns, the change is in the mirror, and on flash unless the receipt says ``relaxed``.
        """
        return self._run(operations.enqueue(self._session, mutation, deadline))

    def enqueue_atomic(
        self, mutations: Sequence[Mutation], *, key: Optional[str] = None, deadline: Optional[float] = None
    ) -> List[Receipt]:
        """Stores 1 to 50 mutations that belong together: all of them take effect, here and at the hub, or none.

        :param key: Idempotency key of the list as a whole.
        """
        return self._run(operations.enqueue_atomic(self._session, mutations, key, deadline))

    def enqueue_many(
        self, mutations: Iterable[Mutation], *, key_prefix: Optional[str] = None, deadline: Optional[float] = None
    ) -> Iterator[LineResult]:
        """Stores any number of mutations, each for itself, and gives the result of each in their order.

        They are sent in batches of 256, so a slow source is better served by ``enqueue``. A mutation that is refused
        does not stop the others: look at ``error`` of each result. The work is done as the results are taken.

        :param key_prefix: Makes the keys ``PREFIX1``, ``PREFIX2`` … for mutations without a key. With it a whole import
            can be repeated after a crash of the app, and nothing is stored twice.
        :param deadline: Seconds for each batch.
        """
        return self._iterate(operations.enqueue_many(self._session, key_prefix, deadline), Items(mutations))

    def mutation(self, id: str, *, deadline: Optional[float] = None) -> MutationItem:
        """Reads the state of a mutation."""
        return self._run(operations.mutation(self._session, id, deadline))

    def mutations(
        self,
        *,
        state: Sequence[str] = (),
        entity: Optional[str] = None,
        record_id: Optional[str] = None,
        app: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Iterator[MutationItem]:
        """The mutations that the agent knows, in the order of the outbox.

        :param state: Only those in one of these states, such as ``["rejected", "failed", "held"]``.
        :param app: Only those of this app; ``me``: of the app that asks.
        """
        return self._iterate(operations.mutations(self._session, state, entity, record_id, app, deadline))

    def wait(self, id: str, *, timeout: float = 60.0) -> MutationItem:
        """Waits until a mutation has come to rest: delivered, in conflict, rejected, parked, expired and so on.

        :raises DeadlinePassed: It is still open after ``timeout`` seconds. It stays in the outbox.
        """
        with contextlib.closing(self._wait([id], timeout)) as items:
            return next(items)

    def wait_many(self, ids: Iterable[str], *, timeout: float = 60.0) -> Iterator[MutationItem]:
        """Waits for many mutations, and gives each when it has come to rest. One connection serves all of them."""
        return self._wait(ids, timeout)

    def _wait(self, ids: Iterable[str], timeout: float) -> Generator[MutationItem, None, None]:
        return self._iterate(operations.wait(self._session, list(ids), timeout))

    def cancel(self, id: str, *, deadline: Optional[float] = None) -> Tuple[str, ...]:
        """Takes back a mutation that was not sent yet.

        :returns: The ids of all mutations that went with it; only its own id if it had been taken back before.
        """
        return self._run(operations.cancel(self._session, id, deadline))

    def retry(
        self,
        id: str,
        data: Optional[Mapping[str, Any]] = None,
        *,
        without: Sequence[str] = (),
        cascade: bool = False,
        deadline: Optional[float] = None,
    ) -> Receipt:
        """Asks again for a mutation that was refused or parked.

        :param data: Fields that replace the refused ones.
        :param without: Fields that the new mutation leaves alone.
        :param cascade: Also those that were refused only because of this one.
        """
        return self._run(operations.retry(self._session, id, data, without, cascade, deadline))

    def undo(self, id: str, *, dry_run: bool = False, deadline: Optional[float] = None) -> Undone:
        """Takes back a mutation that the hub has, with a new mutation that does the opposite.

        Fields that were changed since then stay, and the result names them.

        :param dry_run: Only tell what would be taken back.
        :raises NotAccepted: The hub does not have the mutation.
        :raises AlreadyUndone: Another mutation takes it back already.
        :raises NothingToUndo: Nothing of it can be taken back.
        """
        return self._run(operations.undo(self._session, id, dry_run, deadline))

    def discard(self, id: str, reason: str = "", *, deadline: Optional[float] = None) -> None:
        """Acknowledges a mutation that was refused or parked, and lets its value go."""
        self._run(operations.discard(self._session, id, reason, deadline))

    # MARK: Records

    def record(
        self, entity: str, id: str, *, view: str = "merged", fetch: bool = False, deadline: Optional[float] = None
    ) -> Record:
        """Reads one record of the mirror.

        :param view: ``merged``: the hub's document with the open mutations on top. ``server``: the hub's document
            alone. ``both``: the first in ``data``, the second in ``base``.
        :param fetch: If the device does not keep the document of the record, the agent asks the hub for it.
        :raises NotFound: There is no such record.
        :raises NotKept: Its document is not kept on the device.
        :raises HubUnavailable: The hub could not be asked for it.
        """
        return self._run(operations.record(self._session, entity, id, view, fetch, deadline))

    def record_unless(self, entity: str, id: str, etag: str, *, deadline: Optional[float] = None) -> Optional[Record]:
        """Reads one record; ``None`` if it still is in the state of ``etag``."""
        return self._run(operations.record_unless(self._session, entity, id, etag, deadline))

    def progress(self, entity: str, id: str, *, deadline: Optional[float] = None) -> Progress:
        """Counts how far a record is by the form that it names. The agent counts by its mirror.

        :raises NotFound: There is no such record.
        :raises NotKept: Its document is not kept on the device.
        """
        return self._run(operations.progress(self._session, entity, id, deadline))

    def records(
        self,
        entity: str,
        where: Optional[Condition] = None,
        *,
        sort: Sequence[str] = (),
        fields: Sequence[str] = (),
        include_deleted: bool = False,
        sync_status: Sequence[str] = (),
        deadline: Optional[float] = None,
    ) -> Iterator[Record]:
        """The records of an entity, page by page as they are taken.

        :param where: Condition for the records: ``field("status").eq("open")``; see :mod:`edgesync.where`.
        :param sort: Fields to sort by, ``-`` before a name for falling order; also ``id``, ``updated_at`` and
            ``version``.
        :param fields: Parts of the document to return; the whole of it if empty.
        :param sync_status: Only records with one of these: ``synced``, ``pending``, ``conflict``, ``error``.
        :raises UnknownEntity: Neither this device nor its hub knows the entity.
        """
        return self._iterate(
            operations.records(self._session, entity, where, sort, fields, include_deleted, sync_status, deadline)
        )

    def explain(
        self,
        entity: str,
        where: Optional[Condition] = None,
        *,
        sort: Sequence[str] = (),
        fields: Sequence[str] = (),
        include_deleted: bool = False,
        sync_status: Sequence[str] = (),
        deadline: Optional[float] = None,
    ) -> QueryExplanation:
        """Explains how the agent reads the records that ``records`` returns for the same arguments."""
        return self._run(
            operations.explain(self._session, entity, where, sort, fields, include_deleted, sync_status, deadline)
        )

    def entities(self, *, deadline: Optional[float] = None) -> List[Entity]:
        """The entities that this device has and this app may see."""
        return self._run(operations.entities(self._session, deadline))

    # MARK: The feed

    def follow(
        self,
        types: Sequence[str] = (),
        *,
        entity: Optional[str] = None,
        after: Optional[int] = None,
        give_up_after: Optional[float] = None,
    ) -> Iterator[Event]:
        """The changes as they happen, without an end and over any number of connections, none lost and none twice.

        A feed without ``after`` begins with a :class:`edgesync.Reload`: read then what the app needs, and what happens
        later comes as events. The same event comes when the agent does not keep the events after a position any more.

        :param types: ``record``, ``mutation``, ``conflict``, ``blob``, ``sync``, ``link``, ``connectivity``,
            ``policy``, ``power``, ``config``, ``attention``; all if empty.
        :param after: Position of the last event that the app has dealt with.
        :param give_up_after: Seconds without a connection after which the feed ends with an error; never if ``None``.
        """
        return self._iterate(operations.follow(self._session, types, entity, after, give_up_after))

    # MARK: Conflicts

    def conflict(self, id: str, *, deadline: Optional[float] = None) -> Conflict:
        """Both sides of a conflict."""
        return self._run(operations.conflict(self._session, id, deadline))

    def conflicts(
        self, *, state: Sequence[str] = (), entity: Optional[str] = None, deadline: Optional[float] = None
    ) -> Iterator[Conflict]:
        """The conflicts that wait for a decision, or those in one of the given states."""
        return self._iterate(operations.conflicts(self._session, state, entity, deadline))

    def resolve_conflict(
        self,
        id: str,
        choice: Optional[str] = None,
        *,
        fields: Optional[Mapping[str, Any]] = None,
        comment: Optional[str] = None,
        author: Optional[str] = None,
        expect_remote_version: Optional[int] = None,
        deadline: Optional[float] = None,
    ) -> Optional[str]:
        """Decides a conflict. Returns the id of the mutation that carries the decision, if there is one.

        :param choice: ``local`` or ``remote`` for all that is in dispute.
        :param fields: A choice for each field instead: ``{"finding": "remote", "notes": {"value": "both"}}``.
        :param expect_remote_version: ``remote_version`` of the conflict that was looked at; a newer one refuses the
            decision.
        """
        return self._run(
            operations.resolve_conflict(
                self._session, id, choice, fields, comment, author, expect_remote_version, deadline
            )
        )

    # MARK: Files

    def add_blob(
        self,
        file: Path,
        *,
        filename: Optional[str] = None,
        type: Optional[str] = None,
        by: str = "descriptor",
        deadline: Optional[float] = None,
    ) -> Blob:
        """Gives a file to the agent. It is copied and on flash when this returns, and the original may change or go.

        :param type: Media type; guessed from the name if ``None``.
        :param by: ``descriptor``: this process opens the file and hands the descriptor over; no byte goes through the
            socket. ``path``: the agent opens it, below a folder that its configuration names. ``stream``: the bytes are
            sent.
        """
        with opened(file, by, filename, type) as blob:
            return self._run(operations.add_blob(self._session, blob.request, deadline), blob.bytes)

    def add_blob_descriptor(
        self, descriptor: int, filename: str, *, type: Optional[str] = None, deadline: Optional[float] = None
    ) -> Blob:
        """Hands an open descriptor of a regular file over to the agent, which reads it from its beginning."""
        blob = handed_over(descriptor, filename, type)
        return self._run(operations.add_blob(self._session, blob.request, deadline))

    def add_blob_stream(
        self,
        content: Union[bytes, BinaryIO],
        filename: str,
        *,
        type: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Blob:
        """Sends bytes, or what a binary file gives from where it stands to its end, as a file."""
        blob = stream(content, filename, type)
        return self._run(operations.add_blob(self._session, blob.request, deadline), blob.bytes)

    def attach(
        self,
        entity: str,
        record_id: str,
        field: str,
        file: Path,
        *,
        key: Optional[str] = None,
        action: str = "update",
        filename: Optional[str] = None,
        type: Optional[str] = None,
        by: str = "descriptor",
        author: Optional[str] = None,
        priority: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Tuple[Blob, Receipt]:
        """Gives a file to the agent and lets a field of a record show it.

        :param key: Idempotency key of the mutation. The file needs none: equal bytes are one file.
        """
        mutation = Mutation(entity, action, record_id, key=key, author=author, priority=priority)
        with opened(file, by, filename, type) as blob:
            return self._run(operations.attach(self._session, blob.request, mutation, field, deadline), blob.bytes)

    def blob(self, id: str, *, deadline: Optional[float] = None) -> Blob:
        """Reads the state of a file and of its upload."""
        return self._run(operations.blob(self._session, id, deadline))

    def blobs(self, *, state: Sequence[str] = (), deadline: Optional[float] = None) -> Iterator[Blob]:
        """The files that the agent knows and this app may see."""
        return self._iterate(operations.blobs(self._session, state, deadline))

    def read_blob(self, blob: BlobName, *, wait: float = 0.0, deadline: Optional[float] = None) -> Iterator[bytes]:
        """The bytes of a file in pieces of at most 64 KiB. Reading goes on where a connection broke.

        A file that another device brought comes from the hub, if a record that this app may read shows it. The digest is
        compared behind the last piece.

        :param blob: Its id, its digest (``sha256:…``), the placeholder in a record, or a :class:`edgesync.Blob`.
        :param wait: Seconds that the call waits for a file that is not on this device yet.
        :param deadline: Seconds for each piece; before the first one, ``wait`` comes on top of it.
        :raises BlobFetching: The file has not come within ``wait``. It goes on coming.
        :raises BlobNotFetched: The agent has given it up; ``fetch_blob`` tries it again.
        """
        return self._read(blob, wait, deadline)

    def blob_bytes(
        self, blob: BlobName, *, max: int = limits.BLOB_BYTES, wait: float = 0.0, deadline: Optional[float] = None
    ) -> bytes:
        """All bytes of a file, in memory. The digest was compared. The arguments are those of ``read_blob``.

        :param max: Limit of bytes.
        :raises TooLarge: The file has more.
        """
        content = bytearray()
        with contextlib.closing(self._read(blob, wait, deadline)) as pieces:
            for piece in pieces:
                content += piece
                if len(content) > max:
                    raise too_many_bytes(max)
        return bytes(content)

    def save_blob(self, blob: BlobName, path: Path, *, wait: float = 0.0, deadline: Optional[float] = None) -> int:
        """Copies a file to a path, and returns its size.

        The bytes go to a new file in the same folder. When all of them are there, were compared with the digest and are
        on flash, the new file gets the name, in place of a file that has it. So a reader of the path never sees a part.
        The other arguments are those of ``read_blob``.

        :raises OSError: The file cannot be written.
        """
        with SavedFile(path) as target, contextlib.closing(self._read(blob, wait, deadline)) as pieces:
            for piece in pieces:
                target.write(piece)
            return target.commit()

    def copy_blob(self, blob: BlobName, file: BinaryIO, *, wait: float = 0.0, deadline: Optional[float] = None) -> int:
        """Writes the bytes of a file into a binary file that the app has opened, and returns their number.

        The digest is compared behind the last byte: after an error, what was written is of no use. The other arguments
        are those of ``read_blob``.
        """
        size = 0
        with contextlib.closing(self._read(blob, wait, deadline)) as pieces:
            for piece in pieces:
                write_to(file, piece)
                size += len(piece)
        return size

    def _read(self, blob: BlobName, wait: float, deadline: Optional[float]) -> Generator[bytes, None, None]:
        return self._iterate(files.read_blob(self._session, blob, wait, deadline))

    def fetch_blob(self, blob: BlobName, *, deadline: Optional[float] = None) -> Blob:
        """Lets a file come from the hub, also one that was set aside. The call does not wait for its bytes.

        A feed of the type ``blob`` tells when it has come: ``is_kept`` is ``True`` then.

        :param blob: Its id, its digest, or the placeholder in a record.
        """
        return self._run(operations.fetch_blob(self._session, blob, deadline))

    def pin_blob(self, blob: BlobName, *, deadline: Optional[float] = None) -> Blob:
        """Keeps a file on this device when others need room, and lets it come from the hub if it is not here."""
        return self._run(operations.pin_blob(self._session, blob, deadline))

    def unpin_blob(self, blob: BlobName, *, deadline: Optional[float] = None) -> Blob:
        """Ends ``pin_blob``. The file stays until others need its room."""
        return self._run(operations.unpin_blob(self._session, blob, deadline))

    def retry_blob(self, id: str, *, deadline: Optional[float] = None) -> Blob:
        """Tries a file again that was set aside as failed, in either direction."""
        return self._run(operations.retry_blob(self._session, id, deadline))

    # MARK: The agent itself

    def status(self, *, deadline: Optional[float] = None) -> Status:
        """Reads the status of the agent."""
        return self._run(operations.status(self._session, deadline))

    def ready(self, *, deadline: Optional[float] = None) -> Readiness:
        """Tells whether the first download is complete."""
        return self._run(operations.ready(self._session, deadline))

    def why(self, id: str, *, deadline: Optional[float] = None) -> Why:
        """Explains why a mutation or a file waits, and what would let it go."""
        return self._run(operations.why(self._session, id, deadline))

    def plan(
        self,
        *,
        link: Optional[str] = None,
        metered: Optional[bool] = None,
        roaming: Optional[bool] = None,
        battery: Optional[int] = None,
        charging: Optional[bool] = None,
        budget: Union[None, int, str] = None,
        online: Optional[bool] = None,
        deadline: Optional[float] = None,
    ) -> Plan:
        """Tells what the agent would send in a situation and what would wait. Nothing is sent.

        A fact that is ``None`` is as it is now.

        :param link: Name of the link that would carry the sync.
        :param battery: Percent. Without ``charging`` the battery counts as discharging.
        :param budget: Bytes that the link has left, as a number or as a size such as ``5MB``.
        """
        return self._run(
            operations.plan(self._session, link, metered, roaming, battery, charging, budget, online, deadline)
        )

    def links(self, *, deadline: Optional[float] = None) -> Links:
        """Reads the network interfaces, their state and their cost."""
        return self._run(operations.links(self._session, deadline))

    def usage(
        self,
        *,
        link: Optional[str] = None,
        first_day: Union[None, str, datetime.date] = None,
        last_day: Union[None, str, datetime.date] = None,
        by: str = "day",
        deadline: Optional[float] = None,
    ) -> Usage:
        """Reads the ledger: the bytes that went over each link, by day or month and by class of traffic.

        :param link: Only this link.
        :param first_day: First day in UTC; the first day of the ledger if ``None``.
        :param last_day: Last day in UTC; today if ``None``.
        :param by: ``day`` or ``month``.
        """
        return self._run(operations.usage(self._session, link, first_day, last_day, by, deadline))

    def sync(
        self,
        scope: str = "all",
        *,
        force: bool = False,
        wait: bool = False,
        accept_deletions: bool = False,
        deadline: Optional[float] = None,
    ) -> SyncResult:
        """Starts a sync with the hub.

        :param scope: ``all``, ``push``, ``pull`` or ``full``. ``full`` lists all records again, removes those that the
            hub no longer has, and needs the role ``operate``.
        :param force: Ignore metered links, the battery, the time window and the backoff. The agent never ignores
            ``Retry-After``, refused credentials or a used-up budget. It needs the role ``operate``.
        :param wait: Return when the cycle has ended, after 60 s at the latest; ``result`` is ``None`` then.
        :param accept_deletions: Remove the records that the agent kept because the hub no longer had suspiciously many.
            It needs the role ``operate``.
        :raises Paused: The sync is paused.
        """
        return self._run(operations.sync(self._session, scope, force, wait, accept_deletions, deadline))

    def pause(
        self, reason: str = "", *, until: Optional[datetime.datetime] = None, deadline: Optional[float] = None
    ) -> PauseState:
        """Pauses the sync. Apps can still write and read. The pause survives a restart of the agent.

        It needs the role ``operate``.

        :param until: End of the pause, with a time zone; it lasts until ``resume`` if ``None``.
        """
        return self._run(operations.pause(self._session, reason, until, deadline))

    def resume(self, *, deadline: Optional[float] = None) -> PauseState:
        """Ends the pause. It needs the role ``operate``."""
        return self._run(operations.resume(self._session, deadline))

    def configuration(self, *, deadline: Optional[float] = None) -> Configuration:
        """Reads the configuration that is in force. It needs the role ``operate``."""
        return self._run(operations.configuration(self._session, deadline))

    def reload_configuration(self, *, deadline: Optional[float] = None) -> ConfigurationChange:
        """Lets the agent read its configuration files again. It needs the role ``admin``.

        :raises ValidationFailed: The files are not good. The old configuration stays in force.
        """
        return self._run(operations.reload_configuration(self._session, deadline))

    def audit(self, *, after: Optional[int] = None, deadline: Optional[float] = None) -> Iterator[Decision]:
        """The decisions of people and apps, oldest first. It needs the role ``operate``.

        :param after: Number of the last decision that is known.
        """
        return self._iterate(operations.audit(self._session, after, deadline))

    # MARK: Effects

    def _run(self, steps: Steps[T], source: Optional[Source] = None) -> T:
        performer = _Performer(self, source)
        try:
            result: Any = None
            while True:
                result = performer.perform(steps.send(result))
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            steps.close()
            performer.close()

    def _iterate(self, steps: Steps[None], source: Optional[Source] = None) -> Generator[Any, None, None]:
        performer = _Performer(self, source)
        try:
            result: Any = None
            while True:
                effect = steps.send(result)
                if isinstance(effect, Emit):
                    yield effect.value
                    result = None
                else:
                    result = performer.perform(effect)
        except StopIteration:
            return
        finally:
            steps.close()
            performer.close()


class _Performer:
    """Performs the effects of one call."""

    def __init__(self, client: Client, source: Optional[Source]) -> None:
        self._client = client
        self._source = source or Source()
        self._open: Set[UnixConnection] = set()

    def perform(self, effect: Effect) -> Any:
        if isinstance(effect, Transfer):
            return self._transfer(effect)
        if isinstance(effect, Connect):
            return self._connect(effect)
        if isinstance(effect, Release):
            return self._release(effect)
        if isinstance(effect, Pause):
            return self._client._sleep(effect.seconds)
        return self._source.fetch(effect.size) if isinstance(effect, Fetch) else self._source.rewind()

    def close(self) -> None:
        """Closes what was not released, because the call failed or its caller has had enough."""
        for connection in list(self._open):
            self._let_go(connection)
            connection.close()

    def _connect(self, effect: Connect) -> Union[UnixConnection, ConnectFailure]:
        client = self._client
        if not effect.is_feed and not client._places.acquire(timeout=effect.timeout):
            return ConnectFailure(0, f"all {limits.CONNECTIONS} connections of this client are in use")
        try:
            connection = None if effect.is_fresh else client._idle.take()
            if connection is None:
                connection = open_socket(client.socket_path, effect.is_feed)
        except OSError as error:
            if not effect.is_feed:
                client._places.release()
            return failure(error)
        self._open.add(connection)
        return connection

    def _transfer(self, effect: Transfer) -> Moved:
        connection = effect.connection
        assert isinstance(connection, UnixConnection)
        end = time.monotonic() + effect.timeout
        wanted = select.POLLIN | (select.POLLOUT if effect.data else 0)
        poll: Optional[select.poll] = None
        while True:
            moved = connection.try_write(effect.data, effect.descriptor) if effect.data else None
            if moved is None:
                moved = connection.try_read()
            if moved is not None:
                return moved
            if poll is None:
                poll = select.poll()
                poll.register(connection.socket, wanted)
            left = end - time.monotonic()
            if left <= 0:
                return Moved()
            # poll(2) waits for some weeks at most.
            poll.poll(min(left * 1000 + 1, 1e9))

    def _release(self, effect: Release) -> None:
        connection = effect.connection
        assert isinstance(connection, UnixConnection)
        if effect.is_reusable:
            # Before its place is free: who takes the place finds the connection.
            self._client._idle.put(connection)
        else:
            connection.close()
        self._let_go(connection)

    def _let_go(self, connection: UnixConnection) -> None:
        self._open.discard(connection)
        if not connection.is_feed:
            self._client._places.release()
