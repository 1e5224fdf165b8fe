"""The client for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections import deque
from types import TracebackType
from typing import (
    Any,
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    BinaryIO,
    Callable,
    Deque,
    Iterable,
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

from .client import Client
from .core import files, limits, operations, requests
from .core.effects import Connect, ConnectFailure, Effect, Emit, Fetch, Moved, Pause, Release, Steps, Transfer
from .core.exchange import Session
from .core.files import BlobName
from .core.retry import Environment
from .errors import too_many_bytes
from .sockets import IdleConnections, UnixConnection, failure, open_socket, socket_path
from .sources import AsyncItems, FileBytes, Items, Path, Source, handed_over, opened, stream
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


class AsyncClient:
    """The agent's API for asyncio: the methods of :class:`edgesync.Client`, which are documented there.

    What ``Client`` returns as an iterator, this class returns as an asynchronous iterator; everything else is awaited.
    An iterator that is left before its end gives its connection back when it is closed (``await iterator.aclose()``).
    A task that is cancelled closes its connection; a mutation that was on its way may have been stored. Tasks of one
    event loop may share a client.

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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.socket_path = socket_path(socket)
        self._session = Session(
            self.socket_path, deadline, environment or Environment(), fields=requests.schema_fields(schemas)
        )
        # Fails for a deadline that is none.
        self._session.call()
        self._sleep = sleep
        self._idle = IdleConnections()
        self._places = _Places(limits.CONNECTIONS)

    def close(self) -> None:
        """Closes the connections that are idle. Calls that are under way go on."""
        self._idle.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    # MARK: Mutations

    async def enqueue(self, mutation: Mutation, *, deadline: Optional[float] = None) -> Receipt:
        return await self._run(operations.enqueue(self._session, mutation, deadline))

    async def enqueue_atomic(
        self, mutations: Sequence[Mutation], *, key: Optional[str] = None, deadline: Optional[float] = None
    ) -> List[Receipt]:
        return await self._run(operations.enqueue_atomic(self._session, mutations, key, deadline))

    def enqueue_many(
        self,
        mutations: Union[Iterable[Mutation], AsyncIterable[Mutation]],
        *,
        key_prefix: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> AsyncIterator[LineResult]:
        source = AsyncItems(mutations) if isinstance(mutations, AsyncIterable) else Items(mutations)
        return self._iterate(operations.enqueue_many(self._session, key_prefix, deadline), source)

    async def mutation(self, id: str, *, deadline: Optional[float] = None) -> MutationItem:
        return await self._run(operations.mutation(self._session, id, deadline))

    def mutations(
        self,
        *,
        state: Sequence[str] = (),
        entity: Optional[str] = None,
        record_id: Optional[str] = None,
        app: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> AsyncIterator[MutationItem]:
        return self._iterate(operations.mutations(self._session, state, entity, record_id, app, deadline))

    async def wait(self, id: str, *, timeout: float = 60.0) -> MutationItem:
        items = self._wait([id], timeout)
        try:
            return await items.__anext__()
        finally:
            await items.aclose()

    def wait_many(self, ids: Iterable[str], *, timeout: float = 60.0) -> AsyncIterator[MutationItem]:
        return self._wait(ids, timeout)

    def _wait(self, ids: Iterable[str], timeout: float) -> AsyncGenerator[MutationItem, None]:
        return self._iterate(operations.wait(self._session, list(ids), timeout))

    async def cancel(self, id: str, *, deadline: Optional[float] = None) -> Tuple[str, ...]:
        return await self._run(operations.cancel(self._session, id, deadline))

    async def retry(
        self,
        id: str,
        data: Optional[Mapping[str, Any]] = None,
        *,
        without: Sequence[str] = (),
        cascade: bool = False,
        deadline: Optional[float] = None,
    ) -> Receipt:
        return await self._run(operations.retry(self._session, id, data, without, cascade, deadline))

    async def undo(self, id: str, *, dry_run: bool = False, deadline: Optional[float] = None) -> Undone:
        return await self._run(operations.undo(self._session, id, dry_run, deadline))

    async def discard(self, id: str, reason: str = "", *, deadline: Optional[float] = None) -> None:
        await self._run(operations.discard(self._session, id, reason, deadline))

    # MARK: Records

    async def record(
        self, entity: str, id: str, *, view: str = "merged", fetch: bool = False, deadline: Optional[float] = None
    ) -> Record:
        return await self._run(operations.record(self._session, entity, id, view, fetch, deadline))

    async def record_unless(
        self, entity: str, id: str, etag: str, *, deadline: Optional[float] = None
    ) -> Optional[Record]:
        return await self._run(operations.record_unless(self._session, entity, id, etag, deadline))

    async def progress(self, entity: str, id: str, *, deadline: Optional[float] = None) -> Progress:
        return await self._run(operations.progress(self._session, entity, id, deadline))

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
    ) -> AsyncIterator[Record]:
        return self._iterate(
            operations.records(self._session, entity, where, sort, fields, include_deleted, sync_status, deadline)
        )

    async def explain(
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
        return await self._run(
            operations.explain(self._session, entity, where, sort, fields, include_deleted, sync_status, deadline)
        )

    async def entities(self, *, deadline: Optional[float] = None) -> List[Entity]:
        return await self._run(operations.entities(self._session, deadline))

    # MARK: The feed

    def follow(
        self,
        types: Sequence[str] = (),
        *,
        entity: Optional[str] = None,
        after: Optional[int] = None,
        give_up_after: Optional[float] = None,
    ) -> AsyncIterator[Event]:
        return self._iterate(operations.follow(self._session, types, entity, after, give_up_after))

    # MARK: Conflicts

    async def conflict(self, id: str, *, deadline: Optional[float] = None) -> Conflict:
        return await self._run(operations.conflict(self._session, id, deadline))

    def conflicts(
        self, *, state: Sequence[str] = (), entity: Optional[str] = None, deadline: Optional[float] = None
    ) -> AsyncIterator[Conflict]:
        return self._iterate(operations.conflicts(self._session, state, entity, deadline))

    async def resolve_conflict(
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
        return await self._run(
            operations.resolve_conflict(
                self._session, id, choice, fields, comment, author, expect_remote_version, deadline
            )
        )

    # MARK: Files

    async def add_blob(
        self,
        file: Path,
        *,
        filename: Optional[str] = None,
        type: Optional[str] = None,
        by: str = "descriptor",
        deadline: Optional[float] = None,
    ) -> Blob:
        with opened(file, by, filename, type) as blob:
            return await self._run(operations.add_blob(self._session, blob.request, deadline), blob.bytes)

    async def add_blob_descriptor(
        self, descriptor: int, filename: str, *, type: Optional[str] = None, deadline: Optional[float] = None
    ) -> Blob:
        blob = handed_over(descriptor, filename, type)
        return await self._run(operations.add_blob(self._session, blob.request, deadline))

    async def add_blob_stream(
        self,
        content: Union[bytes, BinaryIO],
        filename: str,
        *,
        type: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Blob:
        blob = stream(content, filename, type)
        return await self._run(operations.add_blob(self._session, blob.request, deadline), blob.bytes)

    async def attach(
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
        mutation = Mutation(entity, action, record_id, key=key, author=author, priority=priority)
        with opened(file, by, filename, type) as blob:
            return await self._run(
                operations.attach(self._session, blob.request, mutation, field, deadline), blob.bytes
            )

    async def blob(self, id: str, *, deadline: Optional[float] = None) -> Blob:
        return await self._run(operations.blob(self._session, id, deadline))

    def blobs(self, *, state: Sequence[str] = (), deadline: Optional[float] = None) -> AsyncIterator[Blob]:
        return self._iterate(operations.blobs(self._session, state, deadline))

    def read_blob(self, blob: BlobName, *, wait: float = 0.0, deadline: Optional[float] = None) -> AsyncIterator[bytes]:
        return self._read(blob, wait, deadline)

    async def blob_bytes(
        self, blob: BlobName, *, max: int = limits.BLOB_BYTES, wait: float = 0.0, deadline: Optional[float] = None
    ) -> bytes:
        content = bytearray()
        pieces = self._read(blob, wait, deadline)
        try:
            async for piece in pieces:
                content += piece
                if len(content) > max:
                    raise too_many_bytes(max)
        finally:
            await pieces.aclose()
        return bytes(content)

    async def save_blob(self, blob: BlobName, path: Path, *, wait: float = 0.0, deadline: Optional[float] = None) -> int:
        target = SavedFile(path)
        pieces = self._read(blob, wait, deadline)
        try:
            async for piece in pieces:
                await _in_thread(target.write, piece)
            return await _in_thread(target.commit)
        finally:
            await pieces.aclose()
            await _in_thread(target.discard)

    async def copy_blob(
        self, blob: BlobName, file: BinaryIO, *, wait: float = 0.0, deadline: Optional[float] = None
    ) -> int:
        size = 0
        pieces = self._read(blob, wait, deadline)
        try:
            async for piece in pieces:
                await _in_thread(write_to, file, piece)
                size += len(piece)
        finally:
            await pieces.aclose()
        return size

    def _read(self, blob: BlobName, wait: float, deadline: Optional[float]) -> AsyncGenerator[bytes, None]:
        return self._iterate(files.read_blob(self._session, blob, wait, deadline))

    async def fetch_blob(self, blob: BlobName, *, deadline: Optional[float] = None) -> Blob:
        return await self._run(operations.fetch_blob(self._session, blob, deadline))

    async def pin_blob(self, blob: BlobName, *, deadline: Optional[float] = None) -> Blob:
        return await self._run(operations.pin_blob(self._session, blob, deadline))

    async def unpin_blob(self, blob: BlobName, *, deadline: Optional[float] = None) -> Blob:
        return await self._run(operations.unpin_blob(self._session, blob, deadline))

    async def retry_blob(self, id: str, *, deadline: Optional[float] = None) -> Blob:
        return await self._run(operations.retry_blob(self._session, id, deadline))

    # MARK: The agent itself

    async def status(self, *, deadline: Optional[float] = None) -> Status:
        return await self._run(operations.status(self._session, deadline))

    async def ready(self, *, deadline: Optional[float] = None) -> Readiness:
        return await self._run(operations.ready(self._session, deadline))

    async def why(self, id: str, *, deadline: Optional[float] = None) -> Why:
        return await self._run(operations.why(self._session, id, deadline))

    async def plan(
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
        return await self._run(
            operations.plan(self._session, link, metered, roaming, battery, charging, budget, online, deadline)
        )

    async def links(self, *, deadline: Optional[float] = None) -> Links:
        return await self._run(operations.links(self._session, deadline))

    async def usage(
        self,
        *,
        link: Optional[str] = None,
        first_day: Union[None, str, datetime.date] = None,
        last_day: Union[None, str, datetime.date] = None,
        by: str = "day",
        deadline: Optional[float] = None,
    ) -> Usage:
        return await self._run(operations.usage(self._session, link, first_day, last_day, by, deadline))

    async def sync(
        self,
        scope: str = "all",
        *,
        force: bool = False,
        wait: bool = False,
        accept_deletions: bool = False,
        deadline: Optional[float] = None,
    ) -> SyncResult:
        return await self._run(operations.sync(self._session, scope, force, wait, accept_deletions, deadline))

    async def pause(
        self, reason: str = "", *, until: Optional[datetime.datetime] = None, deadline: Optional[float] = None
    ) -> PauseState:
        return await self._run(operations.pause(self._session, reason, until, deadline))

    async def resume(self, *, deadline: Optional[float] = None) -> PauseState:
        return await self._run(operations.resume(self._session, deadline))

    async def configuration(self, *, deadline: Optional[float] = None) -> Configuration:
        return await self._run(operations.configuration(self._session, deadline))

    async def reload_configuration(self, *, deadline: Optional[float] = None) -> ConfigurationChange:
        return await self._run(operations.reload_configuration(self._session, deadline))

    def audit(self, *, after: Optional[int] = None, deadline: Optional[float] = None) -> AsyncIterator[Decision]:
        return self._iterate(operations.audit(self._session, after, deadline))

    # MARK: Effects

    async def _run(self, steps: Steps[T], source: Optional[Source] = None) -> T:
        performer = _Performer(self, source)
        try:
            result: Any = None
            while True:
                result = await performer.perform(steps.send(result))
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            steps.close()
            performer.close()

    async def _iterate(self, steps: Steps[None], source: Optional[Source] = None) -> AsyncGenerator[Any, None]:
        performer = _Performer(self, source)
        try:
            result: Any = None
            while True:
                effect = steps.send(result)
                if isinstance(effect, Emit):
                    yield effect.value
                    result = None
                else:
                    result = await performer.perform(effect)
        except StopIteration:
            return
        finally:
            steps.close()
            performer.close()


# The documentation of one client holds for the other.
for _name, _method in vars(Client).items():
    if not _name.startswith("_") and _name in vars(AsyncClient):
        vars(AsyncClient)[_name].__doc__ = _method.__doc__


class _Performer:
    """Performs the effects of one call."""

    def __init__(self, client: AsyncClient, source: Optional[Source]) -> None:
        self._client = client
        self._source = source or Source()
        self._open: Set[UnixConnection] = set()

    async def perform(self, effect: Effect) -> Any:
        if isinstance(effect, Transfer):
            return await self._transfer(effect)
        if isinstance(effect, Connect):
            return await self._connect(effect)
        if isinstance(effect, Release):
            return self._release(effect)
        if isinstance(effect, Pause):
            return await self._client._sleep(effect.seconds)
        source = self._source
        if not isinstance(effect, Fetch):
            return source.rewind()
        if isinstance(source, AsyncItems):
            return await source.fetch(effect.size)
        if isinstance(source, FileBytes):
            # A disk may take its time, which the other tasks do not have.
            return await asyncio.to_thread(source.fetch, effect.size)
        return source.fetch(effect.size)

    def close(self) -> None:
        """Closes what was not released, because the call failed or its caller has had enough."""
        for connection in list(self._open):
            self._let_go(connection)
            connection.close()

    async def _connect(self, effect: Connect) -> Union[UnixConnection, ConnectFailure]:
        client = self._client
        if not effect.is_feed and not await client._places.take(effect.timeout):
            return ConnectFailure(0, f"all {limits.CONNECTIONS} connections of this client are in use")
        try:
            connection = None if effect.is_fresh else client._idle.take()
            if connection is None:
                connection = open_socket(client.socket_path, effect.is_feed)
        except OSError as error:
            if not effect.is_feed:
                client._places.give_back()
            return failure(error)
        self._open.add(connection)
        return connection

    async def _transfer(self, effect: Transfer) -> Moved:
        connection = effect.connection
        assert isinstance(connection, UnixConnection)
        end = asyncio.get_running_loop().time() + effect.timeout
        while True:
            moved = connection.try_write(effect.data, effect.descriptor) if effect.data else None
            if moved is None:
                moved = connection.try_read()
            if moved is not None:
                return moved
            left = end - asyncio.get_running_loop().time()
            if not await _ready(connection, bool(effect.data), left):
                return Moved()

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
            self._client._places.give_back()


async def _in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Lets a thread make a call that may wait for a disk. A task that is cancelled ends only when the call has ended, because a
    file must not be closed while a thread writes to it.
    """
    call_in_thread = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        return await asyncio.shield(call_in_thread)
    except asyncio.CancelledError:
        await asyncio.wait([call_in_thread])
        # It must have been looked at, or asyncio reports it as forgotten.
        if not call_in_thread.cancelled():
            call_in_thread.exception()
        raise


async def _ready(connection: UnixConnection, can_write: bool, timeout: float) -> bool:
    """Waits until something can be read, or written if that is wanted. Returns ``False`` when the time is over."""
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[bool]" = loop.create_future()
    timer = loop.call_later(min(max(timeout, 0.0), 1e6), _finish, future, False)
    loop.add_reader(connection.socket, _finish, future, True)
    if can_write:
        loop.add_writer(connection.socket, _finish, future, True)
    try:
        return await future
    finally:
        loop.remove_reader(connection.socket)
        if can_write:
            loop.remove_writer(connection.socket)
        timer.cancel()


def _finish(future: "asyncio.Future[bool]", result: bool) -> None:
    if not future.done():
        future.set_result(result)


class _Places:
    """A number of places that tasks take one after the other, in the order in which they came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: Deque["asyncio.Future[bool]"] = deque()

    async def take(self, timeout: float) -> bool:
        """Waits for a place. Returns ``False`` when the time is over."""
        if self._free:
            self._free -= 1
            return True
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[bool]" = loop.create_future()
        self._waiting.append(future)
        timer = loop.call_later(timeout, _finish, future, False)
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.result():
                self.give_back()
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiting.remove(future)

    def give_back(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(True)
                return
        self._free += 1
