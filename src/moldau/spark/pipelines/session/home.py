"""A home of Spark's without its copy of PySpark.

Spark puts an archive of PySpark's sources in front of the path of every Python it starts, and each
of them compiles what it imports from it, for more than a second. Without the archive they find
PySpark where it is installed, compiled. That is only right where they run on this machine, with
this Python and the Spark that came with it: who has chosen otherwise gets what he has chosen.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark

from moldau.base.errors import UserError

HOME: Final = "SPARK_HOME"
PYTHON: Final = "PYSPARK_PYTHON"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""What `spark-submit` sets for the Python programs it starts."""

_DOWNLOADED: Final = "spark-distribution"
"""Where the installation puts another Spark than the one it brings along, if it is told to."""
_HERE: Final = re.compile(r"local(\[[^]]*])?")


def is_wanted(master: str, settings: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether nobody has said where Spark, or the Python it starts, is to be found."""
    return (
        _HERE.fullmatch(master) is not None
        and not {HOME, SUBMITTED} & environ.keys()
        and environ.get(PYTHON, sys.executable) == sys.executable
        and not any(name.startswith("spark.pyspark.") for name in settings)
    )


def furnish(folder: Path) -> bool:
    """Make a folder such a home, if it is none yet; tell whether that can be."""
    installed = Path(pyspark.__file__).parent
    if not (installed / "bin" / "spark-submit").is_file() or (installed / _DOWNLOADED).exists():
        return False
    for name in ("bin", "conf", "jars"):
        link, found = folder / name, installed / name
        if found.exists() and not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(found)
    return True


@contextmanager
def light_home() -> Iterator[None]:
    """Have what is started in this block find such a home; at the end it is removed.

    Each has its own: Java opens jars as late as it can, so a home lasts as long as its Spark.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix="moldau-spark-"))
    except OSError as error:
        raise UserError(f"Spark needs a temporary folder: {error.strerror or error}") from error
    try:
        if furnish(folder):
            os.environ[HOME] = str(folder)
        yield
    finally:
        os.environ.pop(HOME, None)
        shutil.rmtree(folder, ignore_errors=True)
