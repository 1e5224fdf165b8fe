"""Client of the Edge Sync Agent.

Apps write mutations to the agent and read records back over a Unix socket; see :class:`Client` and
:class:`AsyncClient`, which have the same methods.

>>> from edgesync import Client, Mutation
>>> with Client() as agent:
...     receipt = agent.enqueue(Mutation("work_orders", "upsert", "wo-1", {"status": "done"}, key="inspection-7781"))
...     print(agent.wait(receipt.id).outcome)
"""

from . import errors
from .aio import AsyncClient
from .client import Client
from .core.jsontext import ExactFloat
from .core.retry import Environment, RetryPolicy
from .errors import EdgeSyncError, FieldError, InvalidArgument, NotDelivered, Refused
from .values import (
    Attachment,
    Blob,
    BlobChanged,
    BlobLink,
    Cause,
    Conflict,
    ConflictChanged,
    ConflictField,
    ConflictSide,
    Entity,
    Event,
    LeftField,
    LineResult,
    Mutation,
    MutationChanged,
    MutationItem,
    Operation,
    Outcome,
    Problem,
    Readiness,
    Receipt,
    Record,
    RecordChanged,
    Reload,
    Status,
    Undone,
    Why,
)
from .version import VERSION as __version__
from .where import Condition, all_of, any_of, field

__all__ = [
    "AsyncClient",
    "Attachment",
    "Blob",
    "BlobChanged",
    "BlobLink",
    "Cause",
    "Client",
    "Condition",
    "Conflict",
    "ConflictChanged",
    "ConflictField",
    "ConflictSide",
    "EdgeSyncError",
    "Entity",
    "Environment",
    "Event",
    "ExactFloat",
    "FieldError",
    "InvalidArgument",
    "LeftField",
    "LineResult",
    "Mutation",
    "MutationChanged",
    "MutationItem",
    "NotDelivered",
    "Operation",
    "Outcome",
    "Problem",
    "Readiness",
    "Receipt",
    "Record",
    "RecordChanged",
    "Refused",
    "Reload",
    "RetryPolicy",
    "Status",
    "Undone",
    "Why",
    "__version__",
    "all_of",
    "any_of",
    "errors",
    "field",
]
