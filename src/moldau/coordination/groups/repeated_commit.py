"""A template for the commits of one member for one partition.

A consumer of one partition commits after every batch of records, or after every record. Group,
member, generation, topic and partition stay the same during a generation. So the record is made
once and kept as a template. Each commit then fills in offset, leader epoch and time. `records`
encodes the record; this module only finds the numbers in it.
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
"""Offset, leader epoch, length of the empty metadata, commit time: adjacent in a value."""
_PACK_NUMBERS: Final = _NUMBERS.pack
_NO_METADATA: Final = 1
"""The length field of an empty compact string."""
_MARKS: Final = (0x4D4F4C4441550001, 0x4D4F4C44, _NO_METADATA, 0x4D4F4C4441550002)
"""Placeholders by which the positions of the numbers are found."""


class RepeatedCommit:
    """The commits of one member for one partition, without metadata, in one generation.

    Their records have the current form. With an older `RecordForm` commits do not use templates.
    """

    __slots__ = (
        "_template",
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
        """Make a template of this request and its one partition."""
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
        # After the value there is one byte: the number of headers, 0.
        position = len(batch) - len(value) - 1
        marks = position + value.index(_NUMBERS.pack(*_MARKS))
        self._template = BatchTemplate(batch, marks, _NUMBERS.size)
        self._value = position - CHECKED_POSITION

    def sealed(self, offset: int, leader_epoch: int, wall_ms: int) -> tuple[bytes, bytes]:
        """Render the batch of one commit, and return it with the value of its record."""
        numbers = _PACK_NUMBERS(offset, leader_epoch, _NO_METADATA, wall_ms)
        checked = self._template.render(wall_ms, numbers)
        return checked, checked[self._value : -1]


CommitAgain: TypeAlias = tuple[RepeatedCommit, int, int]
"""One commit: the template, the offset, the leader epoch."""
