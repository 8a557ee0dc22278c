"""The files port in memory: a disk that can be cut from its power, filled, broken and spoilt.

A `SimDisk` is a machine's file system as one process sees it. `kill` ends that process and
`power_cut` the machine; both return the disk as the next process finds it, and everything of the
old one, this object and its handles, is dead: whoever still uses it gets `Crashed`, because code
of a process that is gone must not run on.

    disk = SimDisk(world.random("disk"), trace=world.trace)
    ...
    disk = disk.power_cut()
"""

from __future__ import annotations

import errno
import itertools
import random
from collections.abc import Callable, Sequence
from weakref import WeakValueDictionary

from moldau.base.files import NEVER_CUT, Buffer
from moldau.sim.crashes import Crashed
from moldau.sim.disk_faults import DiskFaults, Operation
from moldau.sim.pages import Content, Edit, Folder, Node, Tree, os_error, split
from moldau.sim.trace import Trace


class _Machine:
    """What outlives a process: names, bytes, faults, and who is running."""

    def __init__(self, chance: random.Random, trace: Trace) -> None:
        self.chance = chance
        self.trace = trace
        self.tree = Tree()
        self.faults = DiskFaults()
        self.processes: list[SimDisk] = []
        self.locks: dict[str, SimLock] = {}


class SimFile:
    """One open file of one process."""

    __slots__ = ("_content", "_disk", "_open", "intact_end", "path")

    def __init__(self, disk: SimDisk, path: str, content: Content) -> None:
        self._disk = disk
        self._content = content
        self._open = True
        self.intact_end = NEVER_CUT
        self.path = path

    def _use(self) -> Content:
        self._disk.require_alive()
        if not self._open:
            raise os_error(errno.EBADF, self.path)
        return self._content

    def size(self) -> int:
        return len(self._use().data)

    def append(self, parts: Sequence[Buffer]) -> None:
        content = self._use()
        data = b"".join(parts)
        machine = self._disk.machine
        try:
            machine.faults.check(Operation.APPEND, self.path)
        except OSError:
            content.append(data[: machine.chance.randrange(len(data) + 1)])
            raise
        granted_size = machine.faults.grant(len(data))
        content.append(data[:granted_size])
        if granted_size < len(data):
            raise os_error(errno.ENOSPC, self.path)

    def read(self, position: int, size: int) -> bytes:
        content = self._use()
        self._disk.machine.faults.check(Operation.READ, self.path)
        if position < 0 or size < 0:
            raise os_error(errno.EINVAL, self.path)
        return content.read(position, size)

    def truncate(self, size: int) -> None:
        content = self._use()
        self._disk.machine.faults.check(Operation.TRUNCATE, self.path)
        if size < 0:
            raise os_error(errno.EINVAL, self.path)
        content.truncate(size)

    def cut_off_regions(self, position: int) -> None:
        self.intact_end = min(self.intact_end, position)

    def sync(self) -> None:
        content = self._use()
        self._disk.machine.faults.check(Operation.SYNC, self.path)
        content.sync()
        self._disk.machine.trace.note("sync", self.path, len(content.data))

    def resident(self, position: int, size: int) -> bool:
        return self._use().resident(position, size)

    def warm(self, position: int, size: int) -> None:
        self.read(position, size)

    def close(self) -> None:
        self._open = False


class SimFolder:
    """One open folder of one process."""

    __slots__ = ("_disk", "_folder", "_path")

    def __init__(self, disk: SimDisk, path: str, folder: Folder) -> None:
        self._disk = disk
        self._path = path
        self._folder = folder

    def open(self, name: str, *, create: bool = False) -> SimFile:
        path, tree = f"{self._path}/{name}", self._disk.machine.tree
        self._disk.check(Operation.OPEN, path)
        node = self._folder.entries.get(name)
        if node is None and create:
            self._disk.check(Operation.CREATE, path)
            if not tree.holds(self._folder):
                raise os_error(errno.ENOENT, path)
            node = Content()
            tree.change(Edit(self._folder, name, node))
        return SimFile(self._disk, path, content_of(node, path))

    def rename(self, old: str, new: str) -> None:
        path = f"{self._path}/{old}"
        self._disk.check(Operation.RENAME, path)
        moved = content_of(self._folder.entries.get(old), path)
        edits = Edit(self._folder, old, None), Edit(self._folder, new, moved)
        self._disk.machine.tree.change(*edits)

    def remove(self, name: str) -> None:
        path = f"{self._path}/{name}"
        self._disk.check(Operation.REMOVE, path)
        if name in self._folder.entries:
            content_of(self._folder.entries[name], path)
            self._disk.machine.tree.change(Edit(self._folder, name, None))

    def sync(self) -> None:
        self._disk.check(Operation.SYNC_FOLDER, self._path)
        self._disk.machine.tree.sync(self._folder)
        self._disk.machine.trace.note("sync folder", self._path)

    def close(self) -> None:
        """Nothing is held but a reference."""


class SimLock:
    """Held by one process until it lets go or ends."""

    def __init__(self, disk: SimDisk, path: str) -> None:
        self.disk = disk
        self._path = path

    def release(self) -> None:
        locks = self.disk.machine.locks
        if locks.get(self._path) is self:
            del locks[self._path]


_named: WeakValueDictionary[int, SimDisk] = WeakValueDictionary()
"""Disks that were sent to a worker."""


def _disk_named(name: int) -> SimDisk:
    return _named[name]


class SimDisk:
    """One process's view of a simulated machine's file system."""

    def __init__(self, chance: random.Random, *, trace: Trace | None = None) -> None:
        self.machine = _Machine(chance, trace or Trace())
        self.alive = True
        self.machine.processes.append(self)

    def __reduce__(self) -> tuple[Callable[[int], SimDisk], tuple[int]]:
        """Pickle as a name of this disk: a worker is given the machine's files, not a copy."""
        _named[id(self)] = self
        return _disk_named, (id(self),)

    # Faults and crashes

    @property
    def faults(self) -> DiskFaults:
        """What goes wrong on this machine's disk."""
        return self.machine.faults

    def require_alive(self) -> None:
        """Stop code of a process that is gone."""
        if not self.alive:
            raise Crashed("a process that has ended used its disk")

    def another_process(self) -> SimDisk:
        """The same machine's disk, for one more process."""
        other = SimDisk.__new__(SimDisk)
        other.machine = self.machine
        other.alive = True
        self.machine.processes.append(other)
        return other

    def kill(self) -> SimDisk:
        """End this process as `kill -9` does: its handles and locks go, the page cache stays."""
        self.machine.trace.note("kill")
        self.end()
        return self.another_process()

    def power_cut(self) -> SimDisk:
        """End the machine: what was not synced is lost, kept or torn, as chance decides."""
        machine = self.machine
        machine.trace.note("power cut")
        for process in list(machine.processes):
            process.end()
        machine.tree.lose_power(machine.chance)
        return self.another_process()

    def end(self) -> None:
        """Let this process's handles and locks go."""
        self.alive = False
        self.machine.processes.remove(self)
        held = [lock for lock in self.machine.locks.values() if lock.disk is self]
        for lock in held:
            lock.release()

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Spoil one bit of a file, as rot does."""
        self._content(path).flip_bit(position, bit)

    def chill(self, path: str) -> None:
        """Drop a file from the page cache: `resident` is False until it is read."""
        self._content(path).chill()

    # The files port

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.check(Operation.OPEN, path)
        if create and self.machine.tree.find(path) is None:
            self.check(Operation.CREATE, path)
            folder, name = self.machine.tree.place(path)
            self.machine.tree.change(Edit(folder, name, Content()))
        return SimFile(self, path, self._content(path))

    def open_folder(self, path: str) -> SimFolder:
        self.require_alive()
        return SimFolder(self, path, self.machine.tree.folder(path))

    def exists(self, path: str) -> bool:
        self.require_alive()
        return self.machine.tree.find(path) is not None

    def size(self, path: str) -> int:
        return len(self._content(path).data)

    def space(self, folder: str) -> tuple[int, int]:
        self.check(Operation.READ, folder)
        return (-1, -1)

    def names(self, folder: str) -> list[str]:
        self.require_alive()
        return sorted(self.machine.tree.folder(folder).entries)

    def is_folder(self, path: str) -> bool:
        self.require_alive()
        return isinstance(self.machine.tree.find(path), Folder)

    def make_folder(self, path: str) -> None:
        self.require_alive()
        tree = self.machine.tree
        for parent in itertools.accumulate(split(path), "{}/{}".format):
            node = tree.find(parent)
            if node is None:
                self.check(Operation.CREATE, path)
                folder, name = tree.place(parent)
                tree.change(Edit(folder, name, tree.new_folder()))
            elif not isinstance(node, Folder):
                code = errno.EEXIST if split(parent) == split(path) else errno.ENOTDIR
                raise os_error(code, path)

    def rename(self, old: str, new: str) -> None:
        self.check(Operation.RENAME, old)
        tree = self.machine.tree
        old_folder, old_name = tree.place(old)
        new_folder, new_name = tree.place(new)
        moved = old_folder.entries.get(old_name)
        if moved is None:
            raise os_error(errno.ENOENT, old)
        replaced = new_folder.entries.get(new_name)
        if replaced is moved:
            return
        self._require_replaceable(moved, replaced, old, new)
        tree.change(Edit(old_folder, old_name, None), Edit(new_folder, new_name, moved))

    def _require_replaceable(
        self, moved: Content | Folder, replaced: Content | Folder | None, old: str, new: str
    ) -> None:
        names, target = split(old), split(new)
        if target[: len(names)] == names:
            raise os_error(errno.EINVAL, new)
        if isinstance(moved, Folder):
            if isinstance(replaced, Content):
                raise os_error(errno.ENOTDIR, new)
            if replaced is not None and replaced.entries:
                raise os_error(errno.ENOTEMPTY, new)
        elif isinstance(replaced, Folder):
            raise os_error(errno.EISDIR, new)

    def remove(self, path: str) -> None:
        self.check(Operation.REMOVE, path)
        node = self.machine.tree.find(path)
        if isinstance(node, Folder):
            raise os_error(errno.EISDIR, path)
        if node is not None:
            folder, name = self.machine.tree.place(path)
            self.machine.tree.change(Edit(folder, name, None))

    def remove_folder(self, path: str) -> None:
        self.check(Operation.REMOVE, path)
        node = self.machine.tree.find(path)
        if node is None:
            return
        if not isinstance(node, Folder):
            raise os_error(errno.ENOTDIR, path)
        for name in sorted(node.entries):
            if isinstance(node.entries[name], Folder):
                self.remove_folder(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        folder, name = self.machine.tree.place(path)
        self.machine.tree.change(Edit(folder, name, None))

    def sync_folder(self, path: str) -> None:
        self.open_folder(path).sync()

    def lock(self, path: str) -> SimLock:
        self.open(path, create=True).close()
        key = "/".join(split(path))
        if key in self.machine.locks:
            raise os_error(errno.EAGAIN, path)
        lock = self.machine.locks[key] = SimLock(self, key)
        return lock

    def check(self, operation: Operation, path: str) -> None:
        """Raise what this operation meets now, on a machine that runs."""
        self.require_alive()
        self.machine.faults.check(operation, path)

    def _content(self, path: str) -> Content:
        self.require_alive()
        return content_of(self.machine.tree.find(path), path)


def content_of(node: Node | None, path: str) -> Content:
    """Take what has a path for a file; OSError says why it is none."""
    if node is None:
        raise os_error(errno.ENOENT, path)
    if isinstance(node, Folder):
        raise os_error(errno.EISDIR, path)
    return node
