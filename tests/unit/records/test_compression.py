import json
import pickle
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import cramjam
import lz4.frame
import pytest
import zstandard

from moldau.base.errors import CorruptRecords
from moldau.records.compression import Codec, compress, decompress

TEXT = b"".join(json.dumps({"id": i, "user": f"user-{i % 37}"}).encode() for i in range(5000))
REAL_CODECS = [codec for codec in Codec if codec is not Codec.NONE]
PAYLOADS = {"nothing": b"", "one byte": b"a", "text": TEXT, "zeros": bytes(1 << 20)}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_what_was_compressed_comes_back_at_exactly_its_limit(codec, payload):
    packed = compress(codec, memoryview(payload))
    assert decompress(codec, memoryview(packed), len(payload)) == payload


@pytest.mark.parametrize("codec", Codec)
def test_one_byte_beyond_the_limit_is_refused(codec):
    with pytest.raises(CorruptRecords, match="grows beyond"):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("limit", [0, -1, -2])
def test_a_limit_of_nothing_or_less_is_still_a_limit(codec, limit):
    with pytest.raises(CorruptRecords, match="grows beyond"):
        decompress(codec, compress(codec, TEXT), limit)


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("cut", [1, 2, 5, 100, 10_000])
def test_a_cut_stream_is_refused(codec, cut):
    packed = compress(codec, TEXT)
    with pytest.raises(CorruptRecords):
        decompress(codec, packed[:-cut], len(TEXT))


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("garbage", [b"", b"\x05", b"garbage" * 9, b"\xff" * 99])
def test_garbage_is_refused(codec, garbage):
    with pytest.raises(CorruptRecords):
        decompress(codec, garbage, 1 << 20)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bytes_behind_the_stream_are_refused(codec):
    with pytest.raises(CorruptRecords):
        decompress(codec, compress(codec, TEXT) + b"more", len(TEXT) + 4)


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (1, 9)), (Codec.LZ4, (1, 17)), (Codec.ZSTD, (-5, 22))]
)
def test_the_level_changes_the_size(codec, levels):
    low, high = (compress(codec, TEXT, level) for level in levels)
    assert len(high) < len(low)
    assert decompress(codec, low, len(TEXT)) == decompress(codec, high, len(TEXT)) == TEXT


def test_level_9_of_lz4_is_the_fast_default_as_in_java():
    assert compress(Codec.LZ4, TEXT, 9) == compress(Codec.LZ4, TEXT)


def test_lz4_is_written_in_independent_blocks_of_64_kib_without_a_content_size():
    packed = compress(Codec.LZ4, TEXT)
    assert packed[:6].hex() == "04224d186040"
    assert lz4.frame.decompress(packed) == TEXT


@pytest.mark.parametrize("linked", [True, False])
def test_lz4_frames_of_other_writers_are_read(linked):
    packed = lz4.frame.compress(
        TEXT, block_linked=linked, content_checksum=True, block_checksum=True, store_size=True
    )
    assert decompress(Codec.LZ4, packed, len(TEXT)) == TEXT


def test_snappy_is_written_in_the_framing_of_snappy_java():
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == TEXT[: 32 * 1024]


def test_a_bare_snappy_block_is_read_too():
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


@pytest.mark.parametrize(
    "tail", [b"\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff?", b"\x00\x00\x00\x09?"]
)
def test_snappy_framing_that_lies_about_a_block_is_refused(tail):
    with pytest.raises(CorruptRecords, match="block"):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, TEXT) + tail, 2 * len(TEXT))


def test_gzip_members_one_behind_the_other_are_one_payload():
    packed = compress(Codec.GZIP, TEXT) + compress(Codec.GZIP, b"tail")
    assert decompress(Codec.GZIP, packed, len(TEXT) + 4) == TEXT + b"tail"
    assert zlib.decompress(compress(Codec.GZIP, TEXT), 31) == TEXT


def test_a_gzip_stream_of_many_chunks_is_read_whole():
    noise = b"".join(zlib.crc32(b"%d" % i).to_bytes(4, "big") for i in range(100_000))
    packed = compress(Codec.GZIP, noise) + compress(Codec.GZIP, TEXT)
    assert len(packed) > 4 * 64 * 1024
    assert decompress(Codec.GZIP, packed, len(noise) + len(TEXT)) == noise + TEXT


def test_zstd_frames_without_a_content_size_as_java_streams_them_are_read():
    stream = zstandard.ZstdCompressor(22, write_checksum=True).compressobj()
    packed = stream.compress(TEXT) + stream.flush()
    assert zstandard.frame_content_size(packed) == -1
    assert decompress(Codec.ZSTD, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptRecords):
        decompress(Codec.ZSTD, packed[:-2], len(TEXT))


def test_zstd_frames_one_behind_the_other_are_one_payload():
    packed = compress(Codec.ZSTD, TEXT) + compress(Codec.ZSTD, b"tail")
    assert decompress(Codec.ZSTD, packed, len(TEXT) + 4) == TEXT + b"tail"


def test_contexts_are_not_shared_by_threads_that_work_at_once():
    payloads = [TEXT[i:] + TEXT[:i] for i in range(16)]

    def there_and_back(payload):
        return decompress(Codec.ZSTD, compress(Codec.ZSTD, payload), len(payload))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(there_and_back, payloads * 4)) == payloads * 4


def test_codecs_have_the_names_and_numbers_of_kafka():
    assert [(codec.value, codec.label) for codec in Codec] == [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
    ]
    assert Codec.named("lz4") is Codec.LZ4
    with pytest.raises(ValueError, match="no codec is called 'brotli'"):
        Codec.named("brotli")


def test_a_refusal_survives_the_way_back_from_a_worker_process():
    with pytest.raises(CorruptRecords) as caught:
        decompress(Codec.GZIP, b"nope", 10)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_library_is_loaded_with_the_first_use_of_its_codec():
    script = (
        "import sys\n"
        "from moldau.records.compression import Codec, compress, decompress\n"
        "libraries = {'cramjam', 'lz4', 'zstandard'}\n"
        "assert libraries.isdisjoint(sys.modules)\n"
        "assert decompress(Codec.LZ4, compress(Codec.LZ4, b'x'), 1) == b'x'\n"
        "assert libraries & sys.modules.keys() == {'lz4'}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_many_threads_may_use_a_codec_first():
    script = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from threading import Barrier\n"
        "from moldau.records.compression import Codec, compress, decompress\n"
        "together = Barrier(8)\n"
        "def use(codec):\n"
        "    together.wait()\n"
        "    return decompress(codec, compress(codec, b'x' * 9), 9)\n"
        "with ThreadPoolExecutor(8) as threads:\n"
        "    assert set(threads.map(use, [*Codec][1:] * 8)) == {b'x' * 9}\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)
