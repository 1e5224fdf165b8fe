"""Every limit of the client in one place, each with its reason."""

from __future__ import annotations

#: Status line and header fields of one answer, bytes. The agent's own heads have some 300.
HEAD_BYTES = 16 << 10

#: Informational answers (1xx) before the real one. The agent sends at most one.
INTERIM_ANSWERS = 8

#: The size line of one chunk with its extension, bytes.
CHUNK_LINE_BYTES = 256

#: One answer that is held as a whole, bytes. The agent ends a page after 4 MiB and one more record.
ANSWER_BYTES = 16 << 20

#: One line of the answer to a stream of mutations, bytes.
ANSWER_LINE_BYTES = 1 << 20

#: One event of the feed, bytes. The agent's own have some hundred.
EVENT_BYTES = 1 << 20

#: Decimal digits of a whole number that becomes an ``int``. A longer one becomes a ``Decimal``, which costs less to
#: read.
INTEGER_DIGITS = 400

#: Levels of nested lists and objects in a value that is sent. The agent accepts 32 below ``data``.
DEPTH = 64

#: Mutations in one request of ``enqueue_many``. The agent commits as many lines at once.
BATCH_LINES = 256

#: Bytes of mutations in one request of ``enqueue_many``. One line alone may have 128 KiB.
BATCH_BYTES = 512 << 10

#: Mutations of one atomic list.
ATOMIC_MUTATIONS = 50

#: Largest version of a schema that the agent knows.
SCHEMA_VERSION = 1_000_000

#: Entities of which one client names a version. The agent reads a head of at most 16 KiB, and these take half of it.
SCHEMAS = 100

#: Bytes that are read from or written to a socket or a file at once.
PIECE_BYTES = 64 << 10

#: Records of one page. The agent gives at most 1,000.
PAGE_ITEMS = 200

#: Connections for short requests that one client keeps open at the same time. The agent gives a user 8, of which 4 may
#: be feeds.
CONNECTIONS = 4

#: Seconds after which an idle connection is not used again. The agent closes it after 75 s.
IDLE_SECONDS = 60.0

#: Seconds without a byte after which a feed counts as dead. The agent writes at least every 15 s.
FEED_SILENCE_SECONDS = 45.0

#: Seconds without a byte after which a request counts as lost.
ANSWER_SILENCE_SECONDS = 30.0

#: Seconds in which the agent must have stored a file that was handed over by its descriptor or path, or whose last byte
#: was sent.
FILE_SECONDS = 600.0

#: Seconds that one request waits for a file that comes from the hub; a longer wait takes several requests. The agent
#: accepts 300. A request that waits holds one of the connections.
BLOB_WAIT_SECONDS = 30

#: Bytes of a file that ``blob_bytes`` holds in memory, unless the call says another number.
BLOB_BYTES = 16 << 20

#: Seconds in which a local socket accepts a connection.
CONNECT_SECONDS = 5.0

#: Mutations that one call waits for.
WAITED_MUTATIONS = 10_000

#: Seconds that a call waits for the end of a sync. The agent answers after 60 s at the latest.
SYNC_SECONDS = 75.0
