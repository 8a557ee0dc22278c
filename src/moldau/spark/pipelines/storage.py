"""Files beside the tables, wherever these are.

`LocalFiles` are those of this machine. `SparkFiles` are those of any file system that Spark itself
reaches, HDFS say: each call goes to Spark's virtual machine and costs a millisecond. Both keep to
one rule: a file that is there under its name is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from moldau.base.errors import StorageError

_LOCAL_BLOCK_SIZE: Final = 32 * 1024 * 1024
"""What Hadoop gives for the files of this machine."""
_UNSUPPORTED: Final = "org.apache.hadoop.fs.UnsupportedFileSystemException"
_URI_SAFE: Final = "/:=@!$&'()*+,;~"


class FileEntry(NamedTuple):
    """What a file system tells of a file."""

    path: str
    """With its scheme."""
    uri: str
    """The same, as Spark writes paths down."""
    size: int
    modified_ms: int
    block_size: int
    replication: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Files(Protocol):
    """What a pipeline does with files. Every method raises StorageError where it cannot."""

    def whole(self, path: str) -> str:
        """Return a path with its scheme."""

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder."""

    def read(self, path: str) -> str | None:
        """Return the text of a small file; None if there is none."""

    def write(self, path: str, data: str | bytes) -> None:
        """Make a small file, or replace it: a crash leaves no part of it under its name."""

    def move(self, old: str, new: str) -> None:
        """Give a file another path; the folder it goes to is made."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; one that is gone is fine."""

    def names(self, folder: str) -> list[str]:
        """Return what lies directly in a folder, sorted; nothing if there is none."""

    def below(self, folder: str) -> list[FileEntry]:
        """Return the files in a folder and in those below it."""

    def matching(self, folder: str, pattern: str) -> list[FileEntry]:
        """Return the files below a folder that match, `*` standing for part of a name."""

    def entry(self, path: str) -> FileEntry:
        """Return what is told of one file."""


class LocalFiles:
    """Files of this machine.

    Spark's own file system puts a checksum beside each file it writes, `.name.crc`, and checks
    it when it reads. Where a file is replaced here, an old one must not stay.
    """

    def whole(self, path: str) -> str:
        return f"file:{_place(path)}"

    def exists(self, path: str) -> bool:
        try:
            _place(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _failed("read", path, error) from error
        return True

    def read(self, path: str) -> str | None:
        try:
            return _place(path).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed("read", path, error) from error

    def write(self, path: str, data: str | bytes) -> None:
        place = _place(path)
        beside = place.with_name(f".{place.name}.tmp")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(data.encode() if isinstance(data, str) else data)
            _checksum(place).unlink(missing_ok=True)
            beside.replace(place)
        except OSError as error:
            raise _failed("written", path, error) from error

    def move(self, old: str, new: str) -> None:
        place = _place(new)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _checksum(place).unlink(missing_ok=True)
            _place(old).replace(place)
        except OSError as error:
            raise _failed("written", new, error) from error

    def remove(self, path: str) -> None:
        place = _place(path)
        try:
            if place.is_dir():
                shutil.rmtree(place)
            else:
                _checksum(place).unlink(missing_ok=True)
                place.unlink(missing_ok=True)
        except OSError as error:
            raise _failed("removed", path, error) from error

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(one.name for one in _place(folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failed("read", folder, error) from error

    def below(self, folder: str) -> list[FileEntry]:
        return self.matching(folder, "**/*")

    def matching(self, folder: str, pattern: str) -> list[FileEntry]:
        found = _place(folder).glob(pattern)
        try:
            return sorted(_local_entry(one) for one in found if one.is_file())
        except OSError as error:
            raise _failed("read", folder, error) from error

    def entry(self, path: str) -> FileEntry:
        try:
            return _local_entry(_place(path))
        except OSError as error:
            raise _failed("read", path, error) from error


def _place(path: str) -> Path:
    return Path(path.removeprefix("file:"))


def _checksum(place: Path) -> Path:
    return place.with_name(f".{place.name}.crc")


def _local_entry(place: Path) -> FileEntry:
    told = place.stat()
    return FileEntry(
        f"file:{place}",
        f"file:{quote(str(place), safe=_URI_SAFE)}",
        told.st_size,
        told.st_mtime_ns // 1_000_000,
        _LOCAL_BLOCK_SIZE,
        1,
    )


def _failed(done: str, path: str, error: OSError) -> StorageError:
    return StorageError(path, f"cannot be {done}: {error.strerror or error}")


class SparkFiles:
    """The files that a session can reach."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to its file systems
        self._settings: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._settings), place

    def whole(self, path: str) -> str:
        with _reaching(path, "named"):
            system, place = self._at(path)
            return str(system.makeQualified(place).toString())

    def exists(self, path: str) -> bool:
        with _reaching(path, "read"):
            system, place = self._at(path)
            return bool(system.exists(place))

    def read(self, path: str) -> str | None:
        with _reaching(path, "read"):
            system, place = self._at(path)
            if not system.exists(place):
                return None
            stream = system.open(place)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

    def write(self, path: str, data: str | bytes) -> None:
        with _reaching(path, "written"):
            system, place = self._at(path)
            place = system.makeQualified(place)
            name = f".{place.getName()}.tmp"
            beside = self._jvm.org.apache.hadoop.fs.Path(place.getParent(), name)
            stream = system.create(beside, True)
            try:
                stream.write(data.encode() if isinstance(data, str) else data)
            finally:
                stream.close()
            context = self._context(system)
            if context is not None:
                context.rename(beside, place, self._overwriting())
                return
            system.delete(place, False)
            if not system.rename(beside, place):
                raise StorageError(path, "cannot be written, as renaming to it failed")

    def _context(self, system: Any) -> Any:
        """Return Hadoop's newer access to a file system, if that has one.

        Only this can put a file in the place of another, which HDFS does in one step.
        """
        try:
            return self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
                system.getUri(), self._settings
            )
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != _UNSUPPORTED:
                raise
            return None

    def _overwriting(self) -> Any:
        """Return the options of a rename to a name that may be taken, as an array of Java's."""
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        return options

    def move(self, old: str, new: str) -> None:
        with _reaching(new, "written"):
            system, place = self._at(new)
            system.mkdirs(place.getParent())
            if not system.rename(self._jvm.org.apache.hadoop.fs.Path(old), place):
                raise StorageError(new, f"cannot be written, as renaming {old} to it failed")

    def remove(self, path: str) -> None:
        with _reaching(path, "removed"):
            system, place = self._at(path)
            system.delete(place, True)

    def names(self, folder: str) -> list[str]:
        with _reaching(folder, "read"):
            system, place = self._at(folder)
            if not system.exists(place):
                return []
            return sorted(str(one.getPath().getName()) for one in system.listStatus(place))

    def below(self, folder: str) -> list[FileEntry]:
        with _reaching(folder, "read"):
            system, place = self._at(folder)
            found = []
            entries = system.listFiles(place, True)
            while entries.hasNext():
                found.append(_entry(entries.next()))
            return sorted(found)

    def matching(self, folder: str, pattern: str) -> list[FileEntry]:
        with _reaching(folder, "read"):
            system, place = self._at(f"{folder}/{pattern}")
            return sorted(map(_entry, system.globStatus(place) or ()))

    def entry(self, path: str) -> FileEntry:
        with _reaching(path, "read"):
            system, place = self._at(path)
            return _entry(system.getFileStatus(place))


@contextmanager
def _reaching(path: str, done: str) -> Iterator[None]:
    """Say in one line what a file system has refused.

    PySpark has made an error of its own from some of Java's, of illegal arguments say.
    """
    try:
        yield
    except Py4JJavaError as error:
        reason = str(error.java_exception.toString())
        raise StorageError(path, f"cannot be {done}: {_first_line(reason)}") from error
    except CapturedException as error:
        raise StorageError(path, f"cannot be {done}: {_first_line(str(error))}") from error


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _entry(status: Any) -> FileEntry:
    return FileEntry(
        str(status.getPath().toString()),
        str(status.getPath().toUri().toString()),
        int(status.getLen()),
        int(status.getModificationTime()),
        int(status.getBlockSize()),
        int(status.getReplication()),
    )
