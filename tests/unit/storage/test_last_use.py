"""What directories tell of their last use: the broker epoch, unless records may be lost."""

from __future__ import annotations

import random

import pytest

from kits.log_kit import HandClock
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.storage.checkpoints import OPEN_MARK
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources
from moldau.storage.topic_config import LogConfig

TWO = ("/data", "/more")


class Life:
    """One start on a disk, up to the loaded logs."""

    count = 0

    def __init__(self, disk=None, boot_id="boot-1", directories=("/data",)):
        self.disk = disk or SimDisk(random.Random(1))
        Life.count += 1
        resources = Resources(self.disk, HandClock(), random.Random(Life.count))
        self.manager = LogManager(resources, directories)
        self.manager.open("cluster", 1, boot_id)
        self.manager.load(lambda topic: LogConfig())
        self.directories = directories

    @property
    def last_epoch(self):
        return self.manager.last_broker_epoch

    def register(self, epoch):
        for write in self.manager.prepare_open_marks(epoch):
            write()
        return self

    def stop(self, epoch):
        self.manager.close({}, epoch)
        return self

    def next(self, boot_id="boot-1"):
        return Life(self.disk.kill(), boot_id, self.directories)


def test_a_new_directory_has_no_epoch():
    assert Life().last_epoch == -1
    assert Life().next().last_epoch == -1


@pytest.mark.parametrize("directories", [("/data",), TWO])
def test_a_kill_keeps_the_epoch(directories):
    assert Life(directories=directories).register(17).next().last_epoch == 17


def test_the_end_of_the_machine_does_not():
    assert Life().register(17).next("boot-2").last_epoch == -1


def test_a_clean_stop_keeps_it_also_through_a_new_boot():
    life = Life().register(17).stop(17).next("boot-2")
    assert life.last_epoch == 17


@pytest.mark.parametrize("boot_id", ["boot-1", "boot-2"])
def test_a_start_that_ends_before_it_registers_keeps_it(boot_id):
    """The mark of the clean stop is gone then."""
    stopped = Life().register(17).stop(17)
    assert stopped.next(boot_id).next(boot_id).last_epoch == 17


def test_after_a_power_cut_such_a_start_changes_nothing():
    again = Life().register(17).next("boot-2").next("boot-2")
    assert again.last_epoch == -1
    assert again.register(18).next("boot-2").last_epoch == 18


def test_a_life_that_does_not_hear_of_its_registration_leaves_its_incarnation_to_the_next():
    life = Life(directories=TWO).register(17).next()
    asked_under = life.manager.incarnation_id()
    again = life.next()
    assert again.manager.incarnation_id() == asked_under
    stopped = again.stop(17).next()
    assert stopped.manager.incarnation_id() == asked_under
    assert stopped.register(18).next().manager.incarnation_id() != asked_under


def test_what_may_have_lost_records_is_another_incarnation():
    life = Life().register(17).next()
    assert life.next("boot-2").manager.incarnation_id() != life.manager.incarnation_id()
    two = Life(directories=TWO).register(17).next()
    one_is_new = two.disk.kill()
    one_is_new.remove(f"/more/{OPEN_MARK}")
    found = Life(one_is_new, directories=TWO).manager.incarnation_id()
    assert found != two.manager.incarnation_id()


def test_the_epoch_of_a_later_registration_counts():
    assert Life().register(17).register(18).next().last_epoch == 18


def test_an_epoch_that_is_known_is_not_written_again():
    life = Life().register(17).next().register(17)
    life.disk.faults.fail(Operation.SYNC, f"/data/{OPEN_MARK}.tmp")
    life.register(17)
    life.disk.faults.heal()
    assert life.next().last_epoch == 17


def test_directories_with_different_epochs_have_none():
    life = Life(directories=TWO)
    first, _ = life.manager.prepare_open_marks(17)
    first()
    assert life.next().last_epoch == -1


def test_a_directory_that_cannot_be_opened_has_none():
    disk = Life(directories=TWO).register(17).disk.kill()
    disk.faults.fail(Operation.OPEN, "/more")
    assert Life(disk, directories=TWO).last_epoch == -1
