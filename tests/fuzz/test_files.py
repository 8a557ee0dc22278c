"""Whatever bytes lie in a file, a reader makes sense of them or raises an error of ours."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import dump_samples
from moldau.base.errors import ProtocolError, StorageError, UserError
from moldau.base.files import read_whole, write_atomically
from moldau.base.ids import PartitionKey, TopicId
from moldau.base.properties import format_properties, parse_properties
from moldau.coordination.record_texts import offsets_record, transaction_record
from moldau.records.batch import parse_header
from moldau.records.control import ControlType
from moldau.sim.disk import SimDisk
from moldau.storage.checkpoints import (
    CLEAN_MARK,
    HIGH_WATERMARKS,
    META_PROPERTIES,
    OPEN_MARK,
    PARTITION_METADATA,
    CleanMark,
    MetaProperties,
    OpenMark,
    read_clean_mark,
    read_meta_properties,
    read_offsets,
    read_open_mark,
    read_topic_id,
    write_clean_mark,
    write_meta_properties,
    write_offsets,
    write_open_mark,
    write_topic_id,
)
from moldau.storage.dump import DumpOptions, LogDump
from moldau.storage.dump_decoders import metadata_record
from moldau.storage.dump_lines import CurrentForm, OldForm
from moldau.storage.epochs import (
    LEADER_EPOCHS,
    EpochEntry,
    LeaderEpochs,
    format_epochs,
    load_epochs,
)
from moldau.storage.indexes import (
    AbortedTransaction,
    OffsetIndex,
    TimeIndex,
    decode_aborted,
    encode_aborted,
)
from moldau.storage.metadata_json import control_record_text, metadata_record_text
from moldau.storage.producer_snapshot import format_snapshot, parse_snapshot
from moldau.storage.producers import ProducerStates
from moldau.storage.verify import verify_partition

FOLDER = "/logs/t-0"
STEM = "0" * 20
EXAMPLES = settings(max_examples=120)


def new_disk(files=None):
    disk = SimDisk(random.Random(0))
    disk.make_folder(FOLDER)
    for name, content in (files or {}).items():
        write_atomically(disk, f"{FOLDER}/{name}", content)
    return disk


def made(name, write):
    """Let a writer make its file; return the bytes."""
    disk = new_disk()
    write(disk)
    return read_whole(disk, f"{FOLDER}/{name}")


def some_snapshot():
    states = ProducerStates()
    for batch in dump_samples.sound_batches():
        states.replay(parse_header(batch), batch)
    return format_snapshot(states)


def load_snapshot(content):
    """Also use what was read: numbers that no log ever wrote must do no harm."""
    states = ProducerStates(parse_snapshot(content))
    states.high_watermark_moved(5)
    states.remove_expired(10**12, 1000)
    for producer in states:
        assert producer.producer_id == states.get(producer.producer_id).producer_id
        assert all(batch.first_sequence >= -1 for batch in producer.batches)


def from_disk(name, read):
    return lambda content: read(new_disk({name: content}))


def refused(read, content, *errors):
    """Return what a reader says against the content, None if it takes it."""
    try:
        read(content)
    except errors as error:
        return str(error)
    return None


OFFSETS = {PartitionKey("t", 0): 7, PartitionKey("other.topic", 12): 2**40}
IDENTITY = MetaProperties(1, "cluster", 3, bytes(range(16)), {"vendor": " x\\"})
EPOCHS = LeaderEpochs([EpochEntry(0, 0), EpochEntry(3, 120)])

READERS = {
    "offsets": (
        made(HIGH_WATERMARKS, lambda d: write_offsets(d, f"{FOLDER}/{HIGH_WATERMARKS}", OFFSETS)),
        from_disk(HIGH_WATERMARKS, lambda d: read_offsets(d, f"{FOLDER}/{HIGH_WATERMARKS}")),
    ),
    "epochs": (
        format_epochs(EPOCHS),
        from_disk(LEADER_EPOCHS, lambda d: load_epochs(d, FOLDER)),
    ),
    "partition metadata": (
        made(PARTITION_METADATA, lambda d: write_topic_id(d, FOLDER, TopicId(bytes(range(16))))),
        from_disk(PARTITION_METADATA, lambda d: read_topic_id(d, FOLDER)),
    ),
    "meta properties": (
        made(META_PROPERTIES, lambda d: write_meta_properties(d, FOLDER, IDENTITY)),
        from_disk(META_PROPERTIES, lambda d: read_meta_properties(d, FOLDER)),
    ),
    "clean mark": (
        made(CLEAN_MARK, lambda d: write_clean_mark(d, FOLDER, CleanMark(5))),
        from_disk(CLEAN_MARK, lambda d: read_clean_mark(d, FOLDER)),
    ),
    "open mark": (
        made(OPEN_MARK, lambda d: write_open_mark(d, FOLDER, OpenMark("5d5a3c9e", 5))),
        from_disk(OPEN_MARK, lambda d: read_open_mark(d, FOLDER)),
    ),
    "producer snapshot": (some_snapshot(), load_snapshot),
    "offset index": (
        bytes.fromhex("0000000300000049000000090000017c"),
        lambda content: OffsetIndex.decode(0, content, 10**6),
    ),
    "time index": (
        bytes.fromhex("0000018bcfe56805000000030000018bcfe58f0f00000005"),
        lambda content: TimeIndex.decode(0, content),
    ),
    "metadata record": (
        bytes.fromhex("01020002740001020304050607ffffffffffffffff00"),
        metadata_record_text,
    ),
    "control record": (
        bytes.fromhex("00000000000102000000010002000000010000"),
        lambda content: control_record_text(ControlType.LEADER_CHANGE, content),
    ),
    "transaction index": (encode_aborted([AbortedTransaction(9, 6, 8, 9)]), decode_aborted),
}


@st.composite
def mutated(draw, sample):
    """Bytes of a good file after a cut, some flips, and bytes put in or taken out."""
    content = bytearray(sample)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        kind = draw(st.sampled_from(["flip", "insert", "remove", "cut"]))
        if kind == "flip" and at < len(content):
            content[at] = draw(st.integers(0, 255))
        elif kind == "insert":
            content[at:at] = draw(st.binary(max_size=8))
        elif kind == "remove":
            del content[at : at + draw(st.integers(1, 8))]
        elif kind == "cut":
            del content[at:]
    return bytes(content)


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
@EXAMPLES
def test_a_file_is_read_or_refused(name, data):
    sample, read = READERS[name]
    content = data.draw(mutated(sample) | st.binary(max_size=200))
    refusal = refused(read, content, ProtocolError, StorageError)
    assert refusal is None or (refusal and "\n" not in refusal)


@pytest.mark.parametrize("name", READERS)
def test_the_unspoilt_file_is_read(name):
    sample, read = READERS[name]
    read(sample)


LOG = b"".join(dump_samples.sound_batches())
SEGMENT = {
    f"{STEM}.log": LOG,
    f"{STEM}.index": READERS["offset index"][0],
    f"{STEM}.timeindex": READERS["time index"][0],
    f"{STEM}.txnindex": READERS["transaction index"][0],
    f"{19:020d}.snapshot": READERS["producer snapshot"][0],
    LEADER_EPOCHS: READERS["epochs"][0],
    PARTITION_METADATA: READERS["partition metadata"][0],
    HIGH_WATERMARKS: READERS["offsets"][0],
}


@given(
    data=st.data(),
    spoilt=st.sampled_from(sorted(SEGMENT)),
    form=st.sampled_from([CurrentForm(), OldForm()]),
    options=st.fixed_dictionaries(
        {
            "print_data_log": st.booleans(),
            "index_sanity_check": st.booleans(),
        }
    ),
    decoder=st.sampled_from([None, metadata_record, offsets_record, transaction_record]),
)
@settings(max_examples=300)
def test_the_dump_tool_and_the_offline_check_survive_every_file(
    data, spoilt, form, options, decoder
):
    content = data.draw(mutated(SEGMENT[spoilt]) | st.binary(max_size=200))
    disk = new_disk({**SEGMENT, spoilt: content})
    dump = LogDump(disk, DumpOptions(form=form, decoder=decoder, **options))
    for name in SEGMENT:
        try:
            assert all(isinstance(line, str) for line in dump.lines(f"{FOLDER}/{name}"))
        except UserError as error:
            pytest.fail(f"a file that is there could not be read: {error}")
    assert all(str(finding) for finding in verify_partition(disk, FOLDER, compacted=True))


@given(properties=st.dictionaries(st.text(), st.text()))
@EXAMPLES
def test_properties_are_read_as_they_were_written(properties):
    assert parse_properties(format_properties(properties)) == properties


@given(text=st.text(alphabet="ab=:#! \\\n\r\tu0041\u00e9"))
@EXAMPLES
def test_any_properties_text_is_read_or_refused(text):
    refusal = refused(parse_properties, text, ValueError)
    assert refusal is None or refusal.startswith("line ")
