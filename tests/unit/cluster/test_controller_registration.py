"""A controller registers once in each of its lives, and is forgotten only on demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import after, controller
from kits.sole_voter import LOG, all_records, commit, use
from moldau.base.files import read_whole
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    ControllerRegistered,
    ControllerUnregistered,
    FeatureLevelSet,
    OpaqueRecorded,
)
from moldau.cluster.controller_registration import (
    CONTROLLERS_MAX,
    register_controller,
    unregister_controller,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.record_codec import decode_record, encode_change
from moldau.protocol.errors import ApiError, ErrorCode

REGISTER_CONTROLLER, UNREGISTER_CONTROLLER = 27, 29


def at_level(level, *controllers):
    changes = [FeatureLevelSet("metadata.version", level), *map(ControllerRegistered, controllers)]
    return after(MetadataImage(), changes)


def refused(decide, *arguments):
    with pytest.raises(ApiError) as refusal:
        decide(*arguments)
    return refusal.value.code


def test_a_controller_registers_once_for_each_incarnation():
    image = at_level(15)
    changes = register_controller(image, controller(3))
    assert changes == [ControllerRegistered(controller(3))]
    image = after(image, changes)
    assert image.controllers == {3: controller(3)}
    assert register_controller(image, controller(3)) == []
    again = controller(3, incarnation=9)
    image = after(image, register_controller(image, again))
    assert image.controllers == {3: again}


def test_what_a_controller_supports_may_change_without_a_new_incarnation():
    image = at_level(30, controller(3))
    amended = replace(controller(3), features=())
    assert register_controller(image, amended) == [ControllerRegistered(amended)]


def test_before_its_level_no_controller_registers():
    image = at_level(14)
    assert refused(register_controller, image, controller(3)) == ErrorCode.UNSUPPORTED_VERSION
    assert refused(register_controller, MetadataImage(), controller(3)) == 35


def test_there_is_an_end_to_new_controllers_but_not_to_those_that_come_back():
    image = at_level(30, *map(controller, range(CONTROLLERS_MAX)))
    another = controller(CONTROLLERS_MAX)
    assert refused(register_controller, image, another) == ErrorCode.INVALID_REGISTRATION
    assert register_controller(image, controller(0, incarnation=9))


def test_a_controller_is_forgotten_at_the_level_that_has_a_record_for_it():
    image = at_level(33, controller(2), controller(3))
    changes = unregister_controller(image, BrokerId(3), {1, 2})
    assert changes == [ControllerUnregistered(3)]
    assert after(image, changes).controllers == {2: controller(2)}


def test_kafka_4_3_is_left_no_record_that_it_cannot_read():
    image = at_level(30, controller(3))
    assert refused(unregister_controller, image, 3, ()) == ErrorCode.UNSUPPORTED_VERSION


def test_who_is_not_registered_cannot_be_forgotten():
    for level in (30, 33):
        image = at_level(level, controller(2))
        assert refused(unregister_controller, image, 3, {1}) == ErrorCode.UNKNOWN_CONTROLLER_ID


def test_a_voter_is_not_forgotten():
    image = at_level(33, controller(2))
    assert refused(unregister_controller, image, 2, {1, 2}) == ErrorCode.INVALID_REQUEST


# On the disk


def test_a_registration_is_kafkas_record(world, disk):
    async def register(store):
        for change in (
            ControllerRegistered(controller(2)),
            ControllerRegistered(controller(3)),
            ControllerUnregistered(BrokerId(2)),
        ):
            await commit(store, store.image.version, [change])

    before = use(world, disk, register)
    assert before.controllers == {3: controller(3)}
    records = all_records(read_whole(disk, LOG))
    values = [record.value for header, record in records if not header.control]
    kinds = {REGISTER_CONTROLLER, UNREGISTER_CONTROLLER}
    written = [value for value in values if value[1] in kinds]
    assert [value[1:3] for value in written] == [b"\x1b\x00", b"\x1b\x00", b"\x1d\x00"]
    assert [encode_change(decode_record(value), 30) for value in written] == written
    assert use(world, disk).controllers == before.controllers


def test_a_snapshot_has_the_newest_registration_of_each_controller(world, disk):
    async def register(store):
        for incarnation in (1, 2):
            for number in (2, 3):
                registered = ControllerRegistered(controller(number, incarnation))
                await commit(store, store.image.version, [registered])

    use(world, disk, register)
    image = use(world, disk, snapshot_after_bytes=1)
    stated = [one for one in image.as_changes() if isinstance(one, ControllerRegistered)]
    assert [one.controller for one in stated] == [controller(2, 2), controller(3, 2)]
    assert not any(isinstance(one, OpaqueRecorded) for one in image.as_changes())
    assert use(world, disk).controllers == image.controllers
