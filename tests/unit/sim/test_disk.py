"""The simulated disk forgets what a real one may forget, and breaks the way it is told to."""

from __future__ import annotations

import errno
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.files import read_whole, write_atomically
from moldau.sim.crashes import Crashed
from moldau.sim.disk import SimDisk
from moldau.sim.disk_faults import Operation
from moldau.sim.trace import Trace

SEEDS = range(60)


def disk_with(seed: int, *contents: bytes) -> SimDisk:
    """A disk whose files /data/0, /data/1... are wholly durable."""
    disk = SimDisk(random.Random(seed))
    disk.make_folder("/data")
    for number, content in enumerate(contents):
        file = disk.open(f"/data/{number}", create=True)
        file.append([content])
        file.sync()
    disk.sync_folder("/")
    disk.sync_folder("/data")
    return disk


def test_killing_a_process_keeps_everything_it_wrote():
    disk = disk_with(1, b"synced")
    disk.open("/data/0").append([b", not synced"])
    disk.make_folder("/data/new")
    disk = disk.kill()
    assert read_whole(disk, "/data/0") == b"synced, not synced"
    assert disk.is_folder("/data/new")


@pytest.mark.parametrize("end", [SimDisk.kill, SimDisk.power_cut])
def test_nothing_of_an_ended_process_works_any_more(end):
    disk = disk_with(1, b"x")
    file = disk.open("/data/0")
    lock = disk.lock("/data/.lock")
    after = end(disk)
    uses = (
        file.size,
        file.sync,
        lambda: file.read(0, 1),
        lambda: file.append([b"y"]),
        lambda: file.truncate(0),
        lambda: disk.open("/data/0"),
        lambda: disk.names("/data"),
        lambda: disk.rename("/data/0", "/data/1"),
        lambda: disk.remove("/data/0"),
    )
    for use in uses:
        with pytest.raises(Crashed):
            use()
    file.close()
    lock.release()
    assert read_whole(after, "/data/0") == b"x"


def test_a_lock_goes_with_its_process_and_excludes_another():
    disk = disk_with(1)
    disk.lock("/data/.lock")
    other = disk.another_process()
    with pytest.raises(BlockingIOError):
        other.lock("/data/.lock")
    disk.kill()
    other.lock("/data/.lock")


def test_one_process_killed_leaves_the_other_running_but_a_power_cut_ends_both():
    disk = disk_with(1, b"x")
    other = disk.another_process()
    disk.kill()
    assert other.size("/data/0") == 1
    disk_after = other.power_cut()
    with pytest.raises(Crashed):
        other.size("/data/0")
    assert disk_after.size("/data/0") == 1


def test_synced_bytes_and_names_survive_every_power_cut():
    for seed in SEEDS:
        disk = disk_with(seed, b"a" * 10_000, b"b")
        disk.open("/data/0").append([b"unsynced" * 1000])
        disk = disk.power_cut()
        assert disk.names("/data") == ["0", "1"]
        assert disk.size("/data/0") >= 10_000
        assert read_whole(disk, "/data/0").startswith(b"a" * 10_000)
        assert read_whole(disk, "/data/1") == b"b"


def after_cuts(change) -> list[SimDisk]:
    """The disk after the same unsynced change and a power cut, once per seed."""
    outcomes = []
    for seed in SEEDS:
        disk = disk_with(seed, b"0" * 100)
        change(disk)
        outcomes.append(disk.power_cut())
    return outcomes


def test_unsynced_appends_are_lost_kept_or_torn():
    lost = bytes(range(1, 251)) * 40

    def append(disk):
        disk.open("/data/0").append([lost])

    tails = [read_whole(disk, "/data/0")[100:] for disk in after_cuts(append)]
    assert b"" in tails
    assert lost in tails
    torn = [tail for tail in tails if 0 < len(tail.rstrip(b"\0")) < len(lost)]
    assert torn
    assert all(lost.startswith(tail.rstrip(b"\0")) for tail in torn)
    assert any((100 + len(tail)) % 512 == 0 for tail in torn)
    assert any((100 + len(tail)) % 512 for tail in torn)
    assert any(tail.endswith(b"\0\0") for tail in tails)


def test_unsynced_appends_survive_in_the_order_they_were_made():
    def append(disk):
        file = disk.open("/data/0")
        for piece in (b"first", b"second", b"third"):
            file.append([piece])

    whole = b"firstsecondthird"
    tails = {read_whole(disk, "/data/0")[100:].rstrip(b"\0") for disk in after_cuts(append)}
    assert all(whole.startswith(tail) for tail in tails)
    assert {b"", b"first", b"firstsecond", whole} <= tails


def test_two_files_lose_independently():
    sizes = set()
    for seed in SEEDS:
        disk = disk_with(seed, b"", b"")
        for path in ("/data/0", "/data/1"):
            disk.open(path).append([b"x"])
        disk = disk.power_cut()
        sizes.add((disk.size("/data/0"), disk.size("/data/1")))
    assert sizes == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_an_unsynced_truncation_may_come_back():
    def truncate(disk):
        disk.open("/data/0").truncate(40)

    contents = {read_whole(disk, "/data/0") for disk in after_cuts(truncate)}
    assert contents == {b"0" * 40, b"0" * 100}


def test_an_unsynced_name_is_lost_or_kept_although_its_bytes_were_synced():
    def create(disk):
        file = disk.open("/data/new", create=True)
        file.append([b"content"])
        file.sync()

    outcomes = [disk.names("/data") for disk in after_cuts(create)]
    assert ["0"] in outcomes
    assert ["0", "new"] in outcomes


def test_unsynced_names_of_one_folder_survive_in_the_order_they_were_made():
    def create(disk):
        for name in ("a", "b", "c"):
            disk.open(f"/data/{name}", create=True)

    outcomes = {"".join(disk.names("/data")) for disk in after_cuts(create)}
    assert outcomes == {"0", "0a", "0ab", "0abc"}


def test_an_unsynced_rename_is_whole_or_not_there():
    def rename(disk):
        disk.rename("/data/0", "/data/moved")

    outcomes = {tuple(disk.names("/data")) for disk in after_cuts(rename)}
    assert outcomes == {("0",), ("moved",)}


def test_an_unsynced_removal_may_come_back():
    def remove(disk):
        disk.remove("/data/0")

    outcomes = {tuple(disk.names("/data")) for disk in after_cuts(remove)}
    assert outcomes == {("0",), ()}


def test_a_rename_between_folders_never_loses_or_doubles_the_file():
    def move(disk):
        disk.make_folder("/other")
        disk.sync_folder("/")
        disk.open("/data/fresh", create=True)
        disk.rename("/data/fresh", "/other/moved")
        disk.sync_folder("/other")

    for disk in after_cuts(move):
        assert disk.names("/data") == ["0"]
        assert disk.names("/other") == ["moved"]


def test_writing_atomically_leaves_old_or_new_at_every_power_cut():
    for seed in SEEDS:
        disk = disk_with(seed)
        write_atomically(disk, "/data/checkpoint", b"old")
        disk.faults.fail(Operation.SYNC_FOLDER, "/data")
        with pytest.raises(OSError):
            write_atomically(disk, "/data/checkpoint", b"new")
        disk = disk.power_cut()
        assert read_whole(disk, "/data/checkpoint") in {b"old", b"new"}


def test_renaming_without_syncing_the_bytes_is_caught():
    """The canary: the classic mistake must show."""
    contents = set()
    for seed in SEEDS:
        disk = disk_with(seed, b"old")
        file = disk.open("/data/0.tmp", create=True)
        file.append([b"new"])
        disk.rename("/data/0.tmp", "/data/0")
        disk.sync_folder("/data")
        contents.add(read_whole(disk.power_cut(), "/data/0"))
    assert b"" in contents


def test_a_full_disk_takes_what_fits_and_refuses_the_rest():
    disk = disk_with(1, b"")
    disk.faults.fill_up(5)
    file = disk.open("/data/0")
    file.append([b"123"])
    with pytest.raises(OSError) as refused:
        file.append([b"4567"])
    assert refused.value.errno == errno.ENOSPC
    assert file.read(0, 10) == b"12345"
    disk.faults.heal()
    file.append([b"6"])
    assert file.size() == 6


@pytest.mark.parametrize(
    ("operation", "use"),
    [
        (Operation.READ, lambda file: file.read(0, 1)),
        (Operation.READ, lambda file: file.warm(0, 1)),
        (Operation.APPEND, lambda file: file.append([b"x"])),
        (Operation.TRUNCATE, lambda file: file.truncate(0)),
        (Operation.SYNC, lambda file: file.sync()),
    ],
)
def test_an_operation_fails_below_its_path_only(operation, use):
    disk = disk_with(1, b"zero", b"one")
    disk.faults.fail(operation, "/data/0")
    use(disk.open("/data/1"))
    with pytest.raises(OSError) as refused:
        use(disk.open("/data/0"))
    assert refused.value.errno == errno.EIO


def test_a_fault_can_wait_and_can_pass():
    disk = disk_with(1, b"zero")
    file = disk.open("/data/0")
    disk.faults.fail(Operation.READ, "/data", skip=1, times=1)
    file.read(0, 1)
    with pytest.raises(OSError):
        file.read(0, 1)
    file.read(0, 1)


def test_a_failed_sync_keeps_failing_and_makes_nothing_durable():
    kept = set()
    for seed in SEEDS:
        disk = disk_with(seed, b"")
        disk.faults.fail(Operation.SYNC, "/data", times=1)
        file = disk.open("/data/0")
        file.append([b"x"])
        for _ in range(3):
            with pytest.raises(OSError):
                file.sync()
        kept.add(disk.power_cut().size("/data/0"))
    assert kept == {0, 1}


def test_a_failed_append_may_have_written_any_beginning():
    sizes = set()
    for seed in SEEDS:
        disk = disk_with(seed, b"")
        disk.faults.fail(Operation.APPEND, "/data/0")
        file = disk.open("/data/0")
        with pytest.raises(OSError):
            file.append([b"ab"])
        sizes.add(file.size())
    assert sizes == {0, 1, 2}


def test_a_read_only_folder_is_read_and_not_changed():
    disk = disk_with(1, b"zero")
    disk.faults.make_read_only("/data")
    file = disk.open("/data/0")
    assert file.read(0, 4) == b"zero"
    changes = (
        lambda: file.append([b"x"]),
        lambda: file.truncate(0),
        lambda: disk.open("/data/new", create=True),
        lambda: disk.make_folder("/data/folder"),
        lambda: disk.rename("/data/0", "/data/1"),
        lambda: disk.remove("/data/0"),
        lambda: disk.remove_folder("/data"),
    )
    for change in changes:
        with pytest.raises(OSError) as refused:
            change()
        assert refused.value.errno == errno.EROFS


def test_a_flipped_bit_is_read_back_and_durable():
    disk = disk_with(1, b"\x00\x00")
    disk.flip_bit("/data/0", 1, bit=3)
    assert read_whole(disk.power_cut(), "/data/0") == b"\x00\x08"


def test_cold_pages_are_not_resident_until_they_are_warmed():
    disk = disk_with(1, b"x" * 20_000)
    file = disk.open("/data/0")
    assert file.resident(0, 20_000)
    disk.chill("/data/0")
    assert not file.resident(0, 1)
    file.warm(4096, 4096)
    assert file.resident(4096, 4096)
    assert not file.resident(4096, 4097)
    assert not file.resident(0, 20_000)
    file.read(0, 20_000)
    assert file.resident(0, 20_000)


def test_after_a_power_cut_every_page_is_cold():
    disk = disk_with(1, b"x" * 20_000).power_cut()
    assert not disk.open("/data/0").resident(0, 1)


def test_the_same_chance_gives_the_same_disk():
    def run(seed: int) -> tuple[str, bytes]:
        trace = Trace()
        disk = SimDisk(random.Random(seed), trace=trace)
        file = disk.open("/a", create=True)
        disk.sync_folder("/")
        file.append([b"0123456789" * 1000])
        disk = disk.power_cut()
        return trace.digest(), read_whole(disk, "/a")

    assert run(5) == run(5)
    assert len({run(seed)[1] for seed in range(20)}) > 5


@given(
    steps=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=20).map(lambda data: ("append", data)),
            st.integers(0, 60).map(lambda size: ("truncate", size)),
            st.just(("sync", None)),
        ),
        max_size=25,
    ),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150)
def test_a_power_cut_falls_back_to_a_moment_after_the_last_sync(steps, seed):
    disk = disk_with(seed, b"")
    file = disk.open("/data/0")
    moments = [b""]
    for kind, value in steps:
        before = moments[-1]
        if kind == "append":
            file.append([value])
            moments += [before + value[:size] for size in range(1, len(value) + 1)]
            moments += [
                before + value[:size] + bytes(len(value) - size) for size in range(len(value))
            ]
            moments.append(before + value)
        elif kind == "truncate":
            file.truncate(value)
            moments.append(before[:value])
        else:
            file.sync()
            moments = [before]
    assert read_whole(disk, "/data/0") == moments[-1]
    assert read_whole(disk.power_cut(), "/data/0") in moments
