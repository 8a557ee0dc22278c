"""A commit that comes again and again, for one partition, with another offset each time.

That is what a consumer of one partition does after every batch of records, or every record. Group,
member, generation, topic and partition stay the same for as long as a generation lasts, so the
record to write is made once and kept as a template; after that two numbers and the time go into it.
What the record looks like comes from `records`: this module only finds the numbers in it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from moldau.coordination.groups.records import (
    CURRENT_FORM,
    NO_TIMESTAMP,
    CommittedOffset,
    OffsetKey,
    offset_record,
)
from moldau.protocol.messages.offsets import OffsetCommitRequest
from moldau.records.batch import CHECKED_POSITION
from moldau.records.batch_template import BatchTemplate
from moldau.records.builder import BatchBuilder

_NUMBERS: Final = Struct(">qibq")
"""Offset, leader epoch, the length of no metadata, time of the commit: side by side in a value."""
_NO_METADATA: Final = 1
"""How a compact string says that it is empty."""
_MARKS: Final = (0x4D4F4C4441550001, 0x4D4F4C44, _NO_METADATA, 0x4D4F4C4441550002)
"""Stand for the numbers where they are looked for."""


class RepeatedCommit:
    """The commits of one member for one partition, without metadata, in one generation.

    Their records have the form of now. A cluster that wants an older one (`RecordForm`) writes
    every record by itself.
    """

    __slots__ = (
        "_render",
        "_value",
        "generation",
        "group_id",
        "instance_id",
        "member_id",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self, request: OffsetCommitRequest, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """Keep who asks in this request, and the one partition that it is about."""
        self.group_id = request.group_id
        self.member_id = request.member_id
        self.instance_id = request.group_instance_id
        self.generation = request.generation_id_or_member_epoch
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        offset, leader_epoch, _, time_ms = _MARKS
        key, value = offset_record(
            CURRENT_FORM,
            OffsetKey(self.group_id, topic, partition),
            CommittedOffset(offset, leader_epoch, "", time_ms, NO_TIMESTAMP, topic_id),
        )
        assert value is not None
        builder = BatchBuilder()
        builder.append(time_ms, key, value)
        batch = builder.build()
        # Behind the value there is only the number of headers, none.
        position = len(batch) - len(value) - 1
        marks = position + value.index(_NUMBERS.pack(*_MARKS))
        self._render = BatchTemplate(batch, marks, _NUMBERS).render
        self._value = position - CHECKED_POSITION

    def sealed(self, offset: int, leader_epoch: int, wall_ms: int) -> tuple[bytes, bytes]:
        """Render the batch of one commit, and return it with the value of its record."""
        checked = self._render(wall_ms, offset, leader_epoch, _NO_METADATA, wall_ms)
        return checked, checked[self._value : -1]


CommitAgain: TypeAlias = tuple[RepeatedCommit, int, int]
"""One of them: with which offset, and leader epoch."""
