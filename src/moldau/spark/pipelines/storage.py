"""Files beside the tables, wherever these are: through the file systems that Spark itself uses.

A path may be of this machine, of HDFS or of an object store; who owns the table reaches its small
files the same way as its large ones. Calls go to Spark's virtual machine, a millisecond each, so
that this is for a few files per batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession


class FileEntry(NamedTuple):
    """What a file system tells of a file."""

    path: str
    """A whole URI, as Spark writes paths down."""
    size: int
    modified_ms: int
    block_size: int
    replication: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class SparkFiles:
    """The files that a session can reach."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to its file systems
        self._settings: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._settings), place

    def whole(self, path: str) -> str:
        """Return a path with its scheme, as it stands in logs."""
        system, place = self._at(path)
        return str(system.makeQualified(place).toString())

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder."""
        system, place = self._at(path)
        return bool(system.exists(place))

    def read(self, path: str) -> str | None:
        """Return the text of a small file; None if there is none."""
        system, place = self._at(path)
        if not system.exists(place):
            return None
        stream = system.open(place)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        """Make a small file, or replace it: a crash leaves no part of it under its name."""
        system, place = self._at(path)
        beside = self._jvm.org.apache.hadoop.fs.Path(place.getParent(), f".{place.getName()}.tmp")
        stream = system.create(beside, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        system.delete(place, False)
        if not system.rename(beside, place):
            raise OSError(f"{path} cannot be written: renaming to it failed")

    def move(self, old: str, new: str) -> None:
        """Give a file another path; the folder it goes to is made."""
        system, place = self._at(new)
        system.mkdirs(place.getParent())
        if not system.rename(self._jvm.org.apache.hadoop.fs.Path(old), place):
            raise OSError(f"{old} cannot be moved to {new}")

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; one that is gone is fine."""
        system, place = self._at(path)
        system.delete(place, True)

    def names(self, folder: str) -> list[str]:
        """Return what lies directly in a folder, sorted; nothing if there is none."""
        system, place = self._at(folder)
        if not system.exists(place):
            return []
        return sorted(str(one.getPath().getName()) for one in system.listStatus(place))

    def below(self, folder: str) -> list[FileEntry]:
        """Return the files in a folder and in those below it."""
        system, place = self._at(folder)
        found = []
        entries = system.listFiles(place, True)
        while entries.hasNext():
            found.append(_entry(entries.next()))
        return sorted(found)

    def matching(self, pattern: str) -> list[FileEntry]:
        """Return the files whose paths match, `*` standing for part of a name."""
        system, place = self._at(pattern)
        return sorted(map(_entry, system.globStatus(place) or ()))

    def entry(self, path: str) -> FileEntry:
        """Return what is told of one file."""
        system, place = self._at(path)
        return _entry(system.getFileStatus(place))


def _entry(status: Any) -> FileEntry:
    return FileEntry(
        str(status.getPath().toUri().toString()),
        int(status.getLen()),
        int(status.getModificationTime()),
        int(status.getBlockSize()),
        int(status.getReplication()),
    )
