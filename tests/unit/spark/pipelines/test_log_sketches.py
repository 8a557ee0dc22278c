"""Sketches: what occurs is never denied, and what does not nearly always is."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kits.log_tables import arrow, row
from moldau.spark.pipelines.logs import layout
from moldau.spark.pipelines.logs.sketches import (
    FieldPairs,
    packed_sketches,
    pair_marks,
    sketch_of,
    text_marks,
    unpacked_sketches,
)
from moldau.spark.pipelines.logs.sketches.rows import listed_rows, rows_of

NO_PAIRS = pa.array([], pa.string())
NO_NUMBERS = np.zeros(0, dtype=np.int64)
NO_FIELDS = FieldPairs(NO_PAIRS, NO_NUMBERS, NO_NUMBERS, 0)
TEXTS = st.lists(st.text("abcXYZ019 -é\n", max_size=40), min_size=1, max_size=6)


def texts(*values):
    return [pa.array(values, pa.string())]


def sketched(texts, pairs=NO_PAIRS):
    return sketch_of(texts, pairs, NO_FIELDS)


@settings(max_examples=80)
@given(TEXTS, st.data())
def test_every_part_of_a_text_may_occur(values, data):
    """Also in other cases, and where arrays are slices of larger ones."""
    sketch = sketched([pa.array(["before", *values, "after"])[1:-1]])
    text = data.draw(st.sampled_from(values))
    start = data.draw(st.integers(0, len(text)))
    part = text[start : data.draw(st.integers(start, len(text)))]
    for asked in (part, part.replace("X", "x"), part.replace("a", "A")):
        assert sketch.may_hold_text(text_marks([asked]))


@settings(max_examples=60)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=8))
def test_every_pair_may_occur(values):
    pairs = pa.array(["x", *(f"n={value}" for value in values)])[1:]
    sketch = sketched([], pairs)
    assert all(sketch.may_hold_pair(pair_marks("n", value)) for value in values)


def test_what_does_not_occur_is_denied_nearly_always():
    chance = random.Random(3)
    ids = [f"{chance.getrandbits(64):016x}" for _ in range(5000)]
    lines = [f"request {one} of the shop was accepted" for one in ids]
    sketch = sketched(texts(*lines), pa.array([f"id={one}" for one in ids]))
    strange = [f"{chance.getrandbits(64):016x}" for _ in range(500)]

    def believed(marks, ask):
        return sum(ask(mark) for mark in marks)

    assert believed((text_marks([one]) for one in strange), sketch.may_hold_text) < 30
    assert believed((text_marks([one[2:14]]) for one in strange), sketch.may_hold_text) < 120
    assert believed((pair_marks("id", one) for one in strange), sketch.may_hold_pair) < 60
    assert not sketch.may_hold_text(text_marks(["NullPointerException"]))
    assert not sketch.may_hold_text(text_marks(["request", "plums"]))
    assert all(sketch.may_hold_text(text_marks([one[3:14]])) for one in ids)
    assert sum(map(len, (*sketch.texts, sketch.pairs, sketch.listed))) < 160_000


def test_numbers_are_told_apart_by_their_digits():
    chance = random.Random(4)
    orders = [f"{chance.randrange(100_000):05}" for _ in range(5000)]
    lines = [f"order o-{one} of the shop was accepted" for one in orders]
    sketch = sketched(texts(*lines))
    strange = [f"{number:05}" for number in range(0, 100_000, 50) if f"{number:05}" not in orders]

    for text in ("order o-{} ", "o-{}", "{}", "{} of"):
        assert all(sketch.may_hold_text(text_marks([text.format(one)])) for one in orders)
        believed = (sketch.may_hold_text(text_marks([text.format(one)])) for one in strange)
        assert sum(believed) < len(strange) / 9
    assert sketch.may_hold_text(text_marks([orders[0][1:]]))


def test_digits_are_not_sought_across_what_is_none():
    sketch = sketched(texts("order 123-45, 67/890", "9:8"))
    assert sketch.may_hold_text(text_marks(["123-45, 67/890"]))
    assert not sketch.may_hold_text(text_marks(["12345"]))


def test_short_texts_are_told_apart_by_their_letters():
    sketch = sketched(texts("plums, 3 kg", "fez", "figs"))
    for text in ("plu", "PL", "fe", "gs", "fi", "s,", ", 3", "3 ", " k", "p", ""):
        assert sketch.may_hold_text(text_marks([text])), text
    for text in ("xyz", "pm", "sp", "3k", "kgx"):
        assert not sketch.may_hold_text(text_marks([text])), text
    # One character says nothing, and of what is no letter and no digit there is one kind.
    assert sketch.may_hold_text(text_marks(["x"]))
    assert sketch.may_hold_text(text_marks(["s;"]))


@settings(max_examples=25)
@given(st.integers(0, 999), st.sampled_from([0, 5, 40, 300]), st.data())
def test_rows_that_have_all_fields_are_among_those_listed(seed, count, data):
    """Of few values, which many rows have, and of many, which few have; some are missing."""
    chance = random.Random(seed)
    values = {"side": 2, "shelf": 10, "box": 60, "id": 10_000}
    rows = [
        {name: chance.choice([None, *map(str, range(values[name]))])
         for name in values if chance.random() < 0.9}
        for _ in range(count)
    ]  # fmt: skip
    wanted = data.draw(
        st.lists(
            st.sampled_from([(name, str(number)) for name in values for number in range(3)]),
            max_size=3,
        )
    )
    sketch = sketch_of([], NO_PAIRS, field_pairs(rows))
    with_each = [{at for at, row in enumerate(rows) if row.get(name) == value}
                 for name, value in wanted]  # fmt: skip
    assert all(sketch.may_hold_pair(pair_marks(*one))
               for one, found in zip(wanted, with_each, strict=True) if found)  # fmt: skip
    possible = sketch.rows_with([pair_marks(*one) for one in wanted], count)
    listed = [found for (name, _), found in zip(wanted, with_each, strict=True)
              if len(found) > 1 or (found and are_common(rows, name))]  # fmt: skip
    if listed:
        assert set(np.flatnonzero(possible).tolist()) == set.intersection(*listed)
    else:
        assert possible is None


ODD = st.sampled_from(["", "=", "a", "a=b", "b=c", "c", "b", "=c", "a=", "\0", "plum" * 5000])
ODD_FIELDS = st.one_of(
    st.dictionaries(ODD, st.one_of(st.none(), ODD), max_size=9),
    st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=20),
)


@settings(max_examples=60)
@given(st.lists(ODD_FIELDS, min_size=1, max_size=9).map(lambda rows: rows * 2),
       st.sampled_from([1, 7, 100]))  # fmt: skip
@example([{"": "", "a": "b=c"}, {"a=b": "c"}, {"a": "b=c"}], 100)  # one pair of two names
@example([{"a=b": "c", "a": "b=c"}] * 50, 100)  # and in one row
@example([{f"name {number}": "1" for number in range(3000)}] * 2, 100)
def test_whatever_fields_are_called_they_are_written_and_found(fields, group_rows):
    """Names and values are as producers have them, and a line must not hold the pipeline up."""
    rows = [row(offset, fields=one) for offset, one in enumerate(fields)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(layout, "GROUP_ROWS", group_rows)
        patched.setattr(layout, "SKETCHED_ROWS_MIN", 1)
        data = layout.write_rows(arrow(rows), pa.BufferOutputStream())
    groups = [fields[start : start + group_rows] for start in range(0, len(fields), group_rows)]
    sketches = unpacked_sketches(data, len(groups), len(fields))
    for sketch, group in zip(sketches, groups, strict=True):
        for place, one in enumerate(group):
            marks = [pair_marks(*pair) for pair in one.items() if pair[1] is not None]
            assert all(map(sketch.may_hold_pair, marks))
            possible = sketch.rows_with(marks, len(group))
            assert possible is None or possible[place]


def are_common(rows, name):
    """Tell whether values of a field occur twice on average."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return len(values) >= 2 * len(set(values))


def field_pairs(rows):
    fields = [(name, value, at) for at, row in enumerate(rows) for name, value in row.items()]
    pairs = [None if value is None else f"{name}={value}" for name, value, _ in fields]
    names = sorted({name for name, _, _ in fields})
    return FieldPairs(
        pa.array(pairs, pa.string()),
        np.array([names.index(name) for name, _, _ in fields], dtype=np.int64),
        np.array([at for _, _, at in fields], dtype=np.int64),
        len(rows),
    )


def listed(pairs, rows, row_count):
    """List pairs, told by their hashes, of a field whose values are rare."""
    are_rare = np.zeros(len(pairs), dtype=np.bool_)
    return listed_rows(np.array(pairs, dtype=np.uint64), np.array(rows), are_rare, row_count)


def numbers(mask):
    return np.flatnonzero(mask).tolist()


def test_pairs_with_one_hash_are_listed_together():
    """A pair that one row has would not be listed, and the other one's rows be taken for its."""
    found = listed([7, 7, 5, 7, 6], [0, 1, 2, 98, 99], 100)
    assert numbers(rows_of(found, 7, 100)) == [0, 1, 98]
    assert rows_of(found, 5, 100) is None
    assert rows_of(found, 8, 100) is None


def test_a_long_list_is_as_good_as_a_short_one_behind_it():
    found = listed([7] * 300 + [8] * 2, [*range(300), 1, 9999], 10_000)
    assert numbers(rows_of(found, 7, 10_000)) == [*range(300)]
    assert numbers(rows_of(found, 8, 10_000)) == [1, 9999]


def test_the_last_row_that_two_bytes_can_tell_is_listed_and_no_more_rows_are():
    assert numbers(rows_of(listed([3, 3], [0, 65_535], 65_536), 3, 65_536)) == [0, 65_535]
    everywhere = listed([3] * 65_536, range(65_536), 65_536)
    assert rows_of(everywhere, 3, 65_536).all()
    assert rows_of(listed([3, 3], [0, 65_535], 65_537), 3, 65_537) is None


def test_lists_that_make_no_sense_say_nothing():
    found = listed([7, 7, 8, 8] + [9] * 50, [0, 1, 98, 99, *range(50)], 100)
    assert rows_of(found, 7, 101) is None
    for size in range(len(found)):
        assert rows_of(found[:size], 9, 100) is None or rows_of(found[:size], 9, 100).sum() == 50
    assert rows_of(found[:-1], 8, 100) is None
    assert rows_of(found[:-1] + b"\xff", 8, 100) is None  # a row that there is not
    assert rows_of(b"\xff" * len(found), 7, 100) is None


def test_sketches_are_read_as_they_were_written_and_only_for_their_file():
    sketches = [sketched(texts("plums"), pa.array(["a=b"])), sketched([])]
    data = packed_sketches(sketches, 77)
    assert unpacked_sketches(data, 2, 77) == sketches
    assert unpacked_sketches(data, 2, 78) is None
    assert unpacked_sketches(data, 3, 77) is None
    assert unpacked_sketches(data[:-1], 2, 77) is None
    assert unpacked_sketches(b"MLS2" + data[4:], 2, 77) is None  # of an older form
    assert unpacked_sketches(b"", 0, 0) is None
    of_wrong_sizes = sketches[0]._replace(pairs=b"xyz")
    assert unpacked_sketches(packed_sketches([of_wrong_sizes], 77), 1, 77) is None
