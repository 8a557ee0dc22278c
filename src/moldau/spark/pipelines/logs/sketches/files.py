"""The sketches of a file's row groups, as the bytes that lie beside it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from moldau.spark.pipelines.logs.sketches.bits import Packed, are_folded
from moldau.spark.pipelines.logs.sketches.sketch import Sketch
from moldau.spark.pipelines.logs.sketches.texts import TextBits

_MAGIC: Final = b"MLS3"
_HEAD: Final = struct.Struct("<4sII")
_PARTS: Final = 6
"""Of a sketch: four sets of texts, one of pairs, and what is listed."""
_SIZE: Final = np.dtype("<u4")


def sketch_place(path: str) -> str:
    """Return the path of a file's sketches; readers of the folder pass over such names."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}_{name.removesuffix('.parquet')}.sketch"


def packed_sketches(sketches: Sequence[Sketch], row_count: int) -> bytes:
    """Write the sketches of a file's row groups."""
    head = _HEAD.pack(_MAGIC, len(sketches), row_count)
    of_groups = [(*one.texts, one.pairs, one.listed) for one in sketches]
    sizes = np.array([[*map(len, group)] for group in of_groups], _SIZE)
    return b"".join([head, sizes.tobytes(), *chain.from_iterable(of_groups)])


def unpacked_sketches(data: Packed, group_count: int, row_count: int) -> list[Sketch] | None:
    """Read the sketches of a file; None if these are not the ones of a file with such counts."""
    view = memoryview(data)
    try:
        if _HEAD.unpack_from(view) != (_MAGIC, group_count, row_count):
            return None
        written = np.frombuffer(view, _SIZE, group_count * _PARTS, _HEAD.size)
    except (struct.error, ValueError):
        return None
    sizes = written.astype(np.int64)
    start = _HEAD.size + written.nbytes
    ends = start + np.cumsum(sizes)
    sets = sizes.reshape(group_count, _PARTS)[:, :-1]  # all but what is listed
    if start + sizes.sum() != len(view) or not are_folded(sets):
        return None
    bounds = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    parts = iter([view[first:end] for first, end in bounds])
    return [
        Sketch(TextBits(*texts), pairs, listed)
        for *texts, pairs, listed in zip(*[parts] * _PARTS, strict=True)
    ]
