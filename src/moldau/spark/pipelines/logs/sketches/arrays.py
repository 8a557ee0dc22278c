"""Texts of Arrow arrays as the numbers that they are made of, without a copy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def bytes_of(texts: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts, one after the other, without a copy."""
    data = texts.buffers()[2]
    if data is None or len(texts) == 0:
        return np.zeros(0, dtype=np.uint8)
    offsets = offsets_of(texts)
    return np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]]


def offsets_of(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return where texts begin and end in their buffer, without a copy."""
    return np.frombuffer(texts.buffers()[1], dtype=np.int32)[
        texts.offset : texts.offset + len(texts) + 1
    ]
