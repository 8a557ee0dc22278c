import pytest

from moldau.base.errors import CorruptRecords
from moldau.records.varint import SMALL_END, VARINT, WRITTEN, read_varint, read_varlong


def test_zigzag_puts_small_numbers_of_either_sign_first():
    assert [read_varint(bytes((raw,)), 0)[0] for raw in range(5)] == [0, -1, 1, -2, 2]
    assert [VARINT[value] for value in (0, -1, 1, -2, 2)] == [bytes((raw,)) for raw in range(5)]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_a_32_bit_number_has_one_written_form(value, written):
    assert VARINT[value].hex() == written
    assert read_varint(bytes.fromhex(written), 0) == (value, len(written) // 2)
    assert read_varlong(bytes.fromhex(written), 0) == (value, len(written) // 2)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_a_64_bit_number_is_read_as_long_and_refused_as_int(value):
    assert read_varlong(b"\x00" + VARINT[value], 1)[0] == value
    with pytest.raises(CorruptRecords):
        read_varint(VARINT[value], 0)


@pytest.mark.parametrize("bad", [b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_more_than_64_bits_are_refused(bad):
    with pytest.raises(CorruptRecords):
        read_varlong(bad, 0)


def test_a_number_that_is_cut_runs_out_of_bytes():
    with pytest.raises(IndexError):
        read_varint(b"\x80", 0)


def test_only_small_numbers_are_remembered():
    assert VARINT[777] is VARINT[777]
    assert VARINT[-1] is VARINT[-1]
    before = len(VARINT)
    for value in (10**9, 1 << 13, -2):
        assert VARINT[value]
    assert len(VARINT) == before


def test_the_table_of_small_numbers_agrees():
    assert [WRITTEN[value] for value in range(-1, SMALL_END)] == [
        VARINT[value] for value in range(-1, SMALL_END)
    ]
    assert len(WRITTEN) == SMALL_END + 1
