"""Checks of the log directories: room, rights, and what their file systems can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.cli.doctor.findings import Finding, Result, ok
from moldau.cli.doctor.machine import Folder, Machine
from moldau.cli.doctor.plan import BrokerPlan
from moldau.cli.frame.texts import size_text

ROOM_MIN_BYTES: Final = 1024 * 1024
"""With less a broker takes its disk for full, and refuses writes."""
SEGMENTS_ADVISED: Final = 2
"""Room for as many segments: one that is written, and one that is deleted later."""
FILES_ADVISED: Final = 10_000
"""Each segment has four files or so."""

NETWORK: Final = frozenset(
    {"9p", "afs", "cephfs", "ceph", "cifs", "fuse.sshfs", "glusterfs", "nfs", "nfs4", "smb3"}
)
IN_MEMORY: Final = frozenset({"ramfs", "tmpfs"})
OF_CONTAINERS: Final = frozenset({"aufs", "overlay"})


def check_folders(machine: Machine, plan: BrokerPlan) -> Iterator[Finding]:
    """Check every log directory."""
    now_s = machine.clock().now_s
    for path in plan.log_dirs:
        folder = machine.folder(path)
        yield from _rights(path, folder)
        if folder.is_folder:
            yield _room(path, folder, plan.segment_bytes)
            yield _file_system(path, folder)
            yield from _times(path, folder, now_s)


def _rights(path: str, folder: Folder) -> Iterator[Finding]:
    check = f"directory {path}"
    if not folder.is_folder:
        yield Finding(check, Result.PROBLEM, f"{folder.existing} is a file", "Name another folder")
    elif not folder.is_writable:
        advice = f"Make {folder.existing} writable for the user of the broker"
        yield Finding(check, Result.PROBLEM, f"cannot write to {folder.existing}", advice)
    elif folder.is_locked:
        yield ok(check, "in use by a broker")
    else:
        yield ok(check, "writable" if folder.existing == path else "will be made")


def _room(path: str, folder: Folder, segment_bytes: int) -> Finding:
    check = f"room {path}"
    found = f"{size_text(folder.free_bytes)} of {size_text(folder.size_bytes)} free"
    if folder.free_bytes < ROOM_MIN_BYTES:
        return Finding(check, Result.PROBLEM, found, "Free room: the broker would refuse writes")
    if folder.free_files is not None and folder.free_files < FILES_ADVISED:
        advice = "Free inodes: each segment has several files"
        return Finding(check, Result.ADVICE, f"{folder.free_files} inodes free", advice)
    if folder.free_bytes < SEGMENTS_ADVISED * segment_bytes:
        wanted = size_text(SEGMENTS_ADVISED * segment_bytes)
        advice = f"Free {wanted}, room for two segments, or set log.segment.bytes lower"
        return Finding(check, Result.ADVICE, found, advice)
    return ok(check, found)


def _file_system(path: str, folder: Folder) -> Finding:
    check, kind = f"file system {path}", folder.file_system
    if folder.can_send_files is False:
        advice = "Use ext4 or xfs: sendfile does not work here, and consumers would get nothing"
        return Finding(check, Result.PROBLEM, kind, advice)
    if kind in NETWORK:
        advice = "Use a local disk with ext4 or xfs: locks and syncs over a network may fail"
        return Finding(check, Result.ADVICE, kind, advice)
    if kind in IN_MEMORY:
        advice = "Use a disk: records are gone when the machine restarts"
        return Finding(check, Result.ADVICE, kind, advice)
    if kind in OF_CONTAINERS:
        advice = "Mount a volume: records are gone with the container"
        return Finding(check, Result.ADVICE, kind, advice)
    if folder.tells_cached_pages is False:
        advice = "Use ext4 or xfs: without RWF_NOWAIT reads from disk hold up all clients"
        return Finding(check, Result.ADVICE, kind, advice)
    return ok(check, kind)


def _times(path: str, folder: Folder, now_s: float) -> Iterator[Finding]:
    """Say that files are newer than now: retention and producers' timestamps go by the clock."""
    if folder.newest_file_s is not None and folder.newest_file_s > now_s:
        ahead_s = folder.newest_file_s - now_s
        found = f"files from {ahead_s:.0f} s in the future"
        advice = "Set the clock before the broker starts: it has gone back"
        yield Finding(f"times {path}", Result.PROBLEM, found, advice)
