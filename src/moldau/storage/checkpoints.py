"""The formats of the small files beside the logs: offset checkpoints, identities, shutdown marks.

Every file is replaced atomically and read whole. A damaged file is never taken for an empty one: it
raises DamagedFile with its path and the bad line, and the caller decides what to do. A missing file
is no error: it has no entries, or is None.

This module does not know what the offsets mean, when they are written, or where the kernel's boot
id comes from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from moldau.base.errors import StorageError
from moldau.base.files import Files, read_whole, write_atomically
from moldau.base.ids import PartitionKey, TopicId, uuid_bytes, uuid_text
from moldau.base.properties import format_properties, parse_properties

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_MARK = ".kafka_cleanshutdown"
OPEN_MARK = ".moldau_open"

T = TypeVar("T")

_VERSION = 0
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class DamagedFile(StorageError):  # noqa: N818 - it names the thing
    """A small file has bad content; the disk itself works."""


def format_checkpoint(entries: Iterable[str]) -> bytes:
    """Encode a text checkpoint: version, entry count, one entry per line."""
    lines = list(entries)
    return "".join(f"{line}\n" for line in (_VERSION, len(lines), *lines)).encode()


def parse_checkpoint(path: str, content: bytes, parse: Callable[[list[str]], T]) -> list[T]:
    """Parse a text checkpoint; `parse` gets the words of a line and raises ValueError if it is bad.

    An empty file has no entries: a crash can leave one that was created but never written.
    """
    lines = _text(path, content).splitlines()
    if not lines:
        return []
    if _number(path, lines, 0, "version") != _VERSION:
        raise DamagedFile(path, f"line 1: version {lines[0]} is not known, only {_VERSION} is")
    count = _number(path, lines, 1, "entry count")
    if count != len(lines) - 2:
        raise DamagedFile(path, f"line 2: {count} entries announced, {len(lines) - 2} found")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        try:
            entries.append(parse(line.split()))
        except ValueError as error:
            raise DamagedFile(path, f"line {number}: {error}: {line!r}") from error
    return entries


def integer(text: str, bits: int) -> int:
    """Parse a decimal integer that fits into this many bits; ValueError otherwise.

    Stricter than int(), like Java: no underscores and no spaces.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is not an integer")
    value = int(text)
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"{text} does not fit into {bits} bits")
    return value


def read_offsets(files: Files, path: str) -> dict[PartitionKey, int]:
    """Read an offset checkpoint of a log directory; empty if the file does not exist."""
    content = _content(files, path)
    return {} if content is None else dict(parse_checkpoint(path, content, _offset_entry))


def write_offsets(files: Files, path: str, offsets: Mapping[PartitionKey, int]) -> None:
    """Replace an offset checkpoint of a log directory."""
    entries = (f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items())
    write_atomically(files, path, format_checkpoint(entries))


def _offset_entry(words: list[str]) -> tuple[PartitionKey, int]:
    if len(words) != 3:
        raise ValueError("expected topic, partition and offset")
    return PartitionKey(words[0], integer(words[1], 32)), integer(words[2], 64)


def read_topic_id(files: Files, folder: str) -> TopicId | None:
    """Read the topic id of a partition folder; None if the file does not exist."""
    path = f"{folder}/{PARTITION_METADATA}"
    content = _content(files, path)
    if content is None:
        return None
    lines = _text(path, content).splitlines()
    if len(lines) != 2:
        raise DamagedFile(path, f"line 1: two lines expected, {len(lines)} found")
    version = _after(path, lines, 0, "version:")
    if version != "0":
        raise DamagedFile(path, f"line 1: version {version} is not known, only 0 is")
    try:
        return TopicId(uuid_bytes(_after(path, lines, 1, "topic_id:")))
    except ValueError as error:
        raise DamagedFile(path, f"line 2: {error}") from error


def format_topic_id(topic_id: TopicId) -> bytes:
    """Encode a topic id for `partition.metadata`; without a last newline, as in Kafka."""
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def write_topic_id(files: Files, folder: str, topic_id: TopicId) -> None:
    """Write the topic id of a partition folder, with a sync."""
    write_atomically(files, f"{folder}/{PARTITION_METADATA}", format_topic_id(topic_id))


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a log directory."""

    version: int = 1
    """0 with ZooKeeper (`broker.id`), 1 since KRaft (`node.id`)."""
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: bytes | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    """Unknown keys, which are written back unchanged."""

    @property
    def node_id_key(self) -> str:
        return "broker.id" if self.version == 0 else "node.id"


def read_meta_properties(files: Files, folder: str) -> MetaProperties | None:
    """Read the owner of a log directory; None if it has none yet."""
    path = f"{folder}/{META_PROPERTIES}"
    content = _content(files, path)
    if content is None:
        return None
    try:
        return _meta_properties(parse_properties(content.decode("latin-1")))
    except ValueError as error:
        raise DamagedFile(path, str(error)) from error


def write_meta_properties(files: Files, folder: str, identity: MetaProperties) -> None:
    """Write the owner of a log directory."""
    properties = {"version": str(identity.version)}
    if identity.cluster_id is not None:
        properties["cluster.id"] = identity.cluster_id
    if identity.node_id is not None:
        properties[identity.node_id_key] = str(identity.node_id)
    if identity.directory_id is not None:
        properties["directory.id"] = uuid_text(identity.directory_id)
    properties.update(identity.others)
    content = format_properties(properties).encode("latin-1")
    write_atomically(files, f"{folder}/{META_PROPERTIES}", content)


def _meta_properties(properties: dict[str, str]) -> MetaProperties:
    version = integer(properties.pop("version", "0").strip(), 32)
    if version not in {0, 1}:
        raise ValueError(f"version {version} is not known, only 0 and 1 are")
    node_id_key = "broker.id" if version == 0 else "node.id"
    cluster_id = properties.pop("cluster.id", None)
    node_id = properties.pop(node_id_key, None)
    directory_id = properties.pop("directory.id", None)
    if version == 1 and (cluster_id is None or node_id is None):
        missing = "cluster.id" if cluster_id is None else node_id_key
        raise ValueError(f"{missing} is missing")
    return MetaProperties(
        version,
        cluster_id,
        None if node_id is None else integer(node_id.strip(), 32),
        None if directory_id is None else uuid_bytes(directory_id.strip()),
        properties,
    )


@dataclass(frozen=True, slots=True)
class CleanMark:
    """The mark of a clean shutdown: the logs need no recovery."""

    broker_epoch: int = -1
    """Sent to the controller at the next registration (KIP-966); -1 if there was none."""


def read_clean_mark(files: Files, folder: str) -> CleanMark | None:
    """Read the clean shutdown mark with its broker epoch; None without a mark.

    For Kafka only the file's existence counts, and older versions wrote it empty. So an unreadable
    epoch is no error.
    """
    content = _content(files, f"{folder}/{CLEAN_MARK}")
    if content is None:
        return None
    broker_epoch = _json_object(content).get("brokerEpoch")
    return CleanMark(broker_epoch) if type(broker_epoch) is int else CleanMark()


def write_clean_mark(files: Files, folder: str, mark: CleanMark) -> None:
    """Write the mark; this must be the last write of a clean shutdown."""
    text = json.dumps({"version": 0, "brokerEpoch": mark.broker_epoch}, separators=(",", ":"))
    write_atomically(files, f"{folder}/{CLEAN_MARK}", text.encode())


def remove_clean_mark(files: Files, folder: str) -> None:
    """Remove the mark, with a sync, before the first append.

    If a power cut brought the mark back, the next start would trust logs that need recovery.
    """
    files.remove(f"{folder}/{CLEAN_MARK}")
    files.sync_folder(folder)


@dataclass(frozen=True, slots=True)
class OpenMark:
    """Who uses a directory: a broker in this boot of the kernel, registered with this epoch."""

    boot_id: str
    broker_epoch: int = -1
    """Of the last registration whose answer has arrived; -1 if there was none."""
    incarnation_id: bytes = b""
    """Under which the broker asks to be registered; empty once that was answered."""


def read_open_mark(files: Files, folder: str) -> OpenMark | None:
    """Return the mark of the last broker that used this directory; None if its boot is unknown.

    After a crash, the same boot id means that only the process died and the page cache survived.
    Any other answer means that acknowledged bytes may be lost. An unreadable file is unknown,
    which is the safe answer. So is an epoch of -1, for a mark without one.
    """
    content = _content(files, f"{folder}/{OPEN_MARK}")
    if content is None:
        return None
    found = _json_object(content)
    boot_id, broker_epoch = found.get("bootId"), found.get("brokerEpoch")
    if not isinstance(boot_id, str):
        return None
    if type(broker_epoch) is not int:
        return OpenMark(boot_id)
    return OpenMark(boot_id, broker_epoch, _incarnation(found.get("incarnationId")))


def _incarnation(text: object) -> bytes:
    """Read an id, or nothing: then the next life asks under another one, which is safe."""
    try:
        return uuid_bytes(text) if isinstance(text, str) else b""
    except ValueError:
        return b""


def write_open_mark(files: Files, folder: str, mark: OpenMark) -> None:
    """Replace the open mark."""
    content: dict[str, object] = {
        "version": 0,
        "bootId": mark.boot_id,
        "brokerEpoch": mark.broker_epoch,
    }
    if mark.incarnation_id:
        content["incarnationId"] = uuid_text(mark.incarnation_id)
    text = json.dumps(content, separators=(",", ":"))
    write_atomically(files, f"{folder}/{OPEN_MARK}", text.encode())


def _content(files: Files, path: str) -> bytes | None:
    try:
        return read_whole(files, path)
    except FileNotFoundError:
        return None


def _text(path: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DamagedFile(path, f"line {line}: not UTF-8 text") from error


def _number(path: str, lines: list[str], index: int, name: str) -> int:
    if index >= len(lines):
        raise DamagedFile(path, f"line {index + 1}: the {name} is missing")
    try:
        return integer(lines[index].strip(), 32)
    except ValueError as error:
        raise DamagedFile(path, f"line {index + 1}: bad {name}: {error}") from error


def _after(path: str, lines: list[str], index: int, label: str) -> str:
    line = lines[index]
    if not line.startswith(label):
        raise DamagedFile(path, f"line {index + 1}: expected {label!r}, found {line!r}")
    return line.removeprefix(label).strip()


def _json_object(content: bytes) -> dict[str, object]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
