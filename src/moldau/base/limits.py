"""What clients may make the broker do at most, where Kafka has no setting for it.

Each limit has its reason. The size of a module's own cache, or of one step of its work, stands in
that module.
"""

from __future__ import annotations

from typing import Final

UNSENT_BYTES_PER_CONNECTION: Final = 8 * 1024 * 1024
"""A slow reader is not read from while more than this waits for it."""

INFLATED_BATCH_BYTES = 128 * 1024 * 1024
"""No compressed batch may grow beyond this: a bomb is refused, not unpacked (CVE-2023-34455)."""

RECORDS_PER_BATCH = 1_000_000
"""No batch with more records is worked on record by record: three seconds of Python at most. It is
also the most that librdkafka puts into a batch (`batch.num.messages`). A batch that is only stored
and sent may have more."""

COMPUTE_CPU_S = 20.0
"""CPU time for one piece of work on a client's records. The largest batch within the two limits
above takes five to nine seconds; slow machines and slow codecs get twice as much."""

CONVERTED_BATCH_BYTES = 64 * 1024 * 1024
"""No batch that inflates further is converted for an old Fetch: its records lie in memory three
times while they are rewritten."""

CONVERTED_FETCH_BYTES = 8 * 1024 * 1024
"""Inflated bytes that one Fetch of an old client has converted, give or take one batch. The client
gets that much and asks for the rest; the answer is held in memory until the client has read it."""

CONVERTED_PIECE_BYTES = 1024 * 1024
"""Stored bytes that go to the worker at a time: clients take turns between two such pieces."""

REQUEST_WORK_S = 30.0
"""After this long nobody waits for an answer (`request.timeout.ms` of clients is as much), so what
is left of a request's work on records is not begun."""

ANSWER_BYTES = 64 * 1024 * 1024
"""An answer that describes what the broker holds (configs, groups, producers, offsets) does not
grow beyond this; records of a fetch do not count, they have limits of their own."""

OFFSETS_PER_REQUEST = 20_000
"""Offsets that one request may commit or delete: with 53 bytes each at least, a batch of more is
larger than `max.message.bytes` of the offsets topic has ever been by default."""

OFFSETS_PER_BATCH = 500
"""Offsets that are committed or deleted in one batch, all or none of them, which takes 3 ms."""

OFFSETS_PER_PART = 100
"""A request with more than a batch of offsets is carried out in parts of this size, and others get
their turn in between."""

PENDING_OFFSETS_PER_PRODUCER = 20_000
"""Offsets that one transaction may have in one partition of the offsets topic: as many as one
request may commit. Its marker ends all of them in one turn of the loop, which takes 1 ms, and 3 ms
where other commits have come between."""

PENDING_TOPICS_PER_PRODUCER = 2_000
"""Topics of these offsets, counted once for each group. Each takes one microsecond of the same
turn, and two where other commits have come between."""

PARTITIONS_PER_TRANSACTION = 10_000
"""Partitions of one transaction: as many as one Produce may have. Every step of a transaction
writes all of them in one record, which takes 4 ms."""

TOPICS_PER_TRANSACTION = 2_000
"""Topics of these partitions: each takes another microsecond of the record."""

CONFIGS_PER_RESOURCE = 1_000
"""Configs that one request may set for one topic, broker or group: three times as many as there
are. Each is checked in the turn in which all of them are stored."""

OPEN_FILES_CACHED = 512
"""Closed segments whose descriptors are kept open for readers, least recently used first out."""

INDEXES_CACHED_BYTES = 32 * 1024 * 1024
"""Index bytes of closed segments kept in memory, least recently used first out."""

ABORTED_CACHED_BYTES = 16 * 1024 * 1024
"""Bytes of `.txnindex` kept in memory: half a million aborted transactions, least recently used
segments first out. The index of one segment that has more is read for each fetch that needs it."""

PLAIN_REQUEST_BYTES = 16 * 1024 * 1024
"""A request that carries no records may not be larger: fifty thousand partitions with their offsets
are 2 MiB. `socket.request.max.bytes` remains the limit of Produce, and of all if it is lower."""

ELEMENTS_PER_REQUEST = 100_000
"""Array elements of one request, nested ones included: a client of fifty thousand partitions, each
in a topic of its own, may name all of them. An element of one byte becomes an object of a hundred,
so that bytes alone are no bound on memory."""

ELEMENTS_PER_PRODUCE = 20_000
"""The same for Produce, whose elements are a topic and a batch each: ten thousand partitions."""

FLAT_REQUEST_BYTES = 16 * 1024
"""A request up to this size is decoded in one go: whatever it holds, that takes 2 ms at most. A
larger one is decoded in slices, and its elements are counted."""

FLAT_RESPONSE_ELEMENTS = 1_000
"""A response with no more elements is encoded in one go, which takes 1 ms at most."""

ELEMENTS_PER_STEP = 128
"""A codec that works in slices offers to pause after this many elements: every 0.1 ms or so."""

LARGE_REQUESTS_AT_ONCE = 4
"""Requests that are worked on at once among those not decoded within their first slice. Each may
come to fifty megabytes of objects with its answer; more at once would not be done sooner."""
