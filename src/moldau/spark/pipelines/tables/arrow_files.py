"""Files of tables that Arrow reads, for readers without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from moldau.base.errors import UserError


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Name the file that Arrow cannot read, because of damage or of where it lies.

    One that is not there is for the caller, who may know of another. Lines of an error after the
    first tell how Arrow came to it.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        what = str(error).partition("\n")[0]
        raise UserError(f"{path} cannot be read: {what}") from error
