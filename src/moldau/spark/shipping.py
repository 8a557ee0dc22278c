"""Sending readers and writers to executors that may lack what they stand on.

Spark pickles them on the driver, and an executor loads them before any line of ours could run
there. Where Moldau is missing its user would read of a module not found in the middle of a
pickle; where it is older or newer than the driver's, of some attribute. So what travels is a small
function, by value, with the pickled part as bytes: it looks at what is installed, says in one line
what is wrong, on which machine and what to do, and only then loads the part.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import platform
import sys
from collections import ChainMap
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from pyspark.cloudpickle import CloudPickler

from moldau import __version__
from moldau.base.errors import UserError

LOWEST_VERSIONS = {"numpy": (2, 0), "pyarrow": (18, 0)}
"""What the `spark` extra asks for. Extras do not travel: a cluster has what somebody put there.
pyarrow cannot be imported beside a numpy that is too old, so numpy is looked at first."""

T = TypeVar("T")


def checked_on_arrival(kind: type[T]) -> type[T]:
    """Have what is of this class pickled together with the check of its new home."""
    copyreg.pickle(kind, _packed)
    return kind


def unpacked(version: str, packed: bytes) -> object:
    """Return the part that a driver with this version of Moldau has packed."""
    if version != __version__:
        raise UserError(
            f"moldau is {__version__} for {place()} but {version} on Spark's driver: "
            f"install moldau {version} on every node"
        )
    check_packages()
    return pickle.loads(packed)  # noqa: S301 - from Spark's own driver, as all a task runs


@functools.cache
def check_packages() -> None:
    """Refuse to go on where a library of the `spark` extra is missing or too old."""
    for name, lowest in LOWEST_VERSIONS.items():
        wanted = f"{name} {'.'.join(map(str, lowest))} or newer"
        advice = "install moldau[spark] there, or point PYSPARK_PYTHON to a Python that has it"
        try:
            found = str(import_module(name).__version__)
        except ImportError as missing:
            raise UserError(
                f'format("moldau") needs {wanted}, which {place()} cannot import ({missing}): '
                f"{advice}"
            ) from None
        if tuple(int(part) for part in found.split(".")[:2]) < lowest:
            raise UserError(f'format("moldau") needs {wanted}, but {place()} has {found}: {advice}')


def needed_library(name: str, *, asking: str, extra: str) -> Any:
    """Return a library that only some options ask for; UserError if it is not installed here."""
    try:
        return import_module(name)
    except ImportError as missing:
        raise UserError(
            f"{asking} needs {name}, which {place()} cannot import ({missing}): install"
            f" moldau[{extra}] on every node"
        ) from None


def place() -> str:
    """Return which Python this is and where, as an error names it."""
    return f"{sys.executable} on {platform.node()}"


def _packed(part: Any) -> tuple[Callable[..., Any], tuple[str, bytes]]:
    usual = CloudPickler.dispatch_table.items()

    class UsualPickler(CloudPickler):
        """Spark's pickler, without what it has been told here."""

        dispatch_table = ChainMap(  # noqa: RUF012 - pickle looks for it on the class
            {kind: how for kind, how in usual if how is not _packed}
        )

    buffer = io.BytesIO()
    pickler: Any = UsualPickler
    pickler(buffer).dump(part)
    return _unpacker(), (__version__, buffer.getvalue())


def _unpacker() -> Callable[[str, bytes], object]:
    """Return what an executor runs first.

    Spark's pickler sends a function that no import can find by value, and this one is made here,
    inside another. It may name nothing that needs Moldau to be loaded.
    """

    def unpack(version: str, packed: bytes) -> object:
        try:
            from moldau.spark.shipping import unpacked  # noqa: PLC0415 - not there is the question
        except ImportError as missing:
            import platform  # noqa: PLC0415
            import sys  # noqa: PLC0415

            raise ImportError(
                f"{sys.executable} on {platform.node()} cannot import Moldau ({missing}): install "
                f"moldau[spark] {version} on every node, or point PYSPARK_PYTHON to a Python "
                "that has it"
            ) from None
        return unpacked(version, packed)

    return unpack
