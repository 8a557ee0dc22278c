"""The Java that Spark runs on: whether there is one, and how it collects what is no longer used.

Without one Spark's scripts print what helps nobody.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

NEEDED: Final = 17
OPTIONS: Final = "spark.driver.extraJavaOptions"
_ITS_OWN: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_COLLECTOR: Final = re.compile(r"-XX:[+-]Use\w*GC\b")


def java_version() -> int | None:
    """Return the version of the Java that Spark would take; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)  # Java 8 calls itself 1.8
    return None if found is None else int(found[1])


def what_is_missing() -> str | None:
    """Say in one line what keeps Spark from running; None if nothing does."""
    version = java_version()
    if version is None:
        home = os.environ.get("JAVA_HOME")
        where = f"in JAVA_HOME, which is {home}" if home else "here"
        return f"pipelines need Java {NEEDED}, and there is no Java {where}"
    if version < NEEDED:
        return f"pipelines need Java {NEEDED}, and the one here is Java {version}"
    return None


def collecting(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the setting for a machine that is shared with brokers, unless one was chosen.

    Java's usual collector works beside its program, on cores that are not free here, and a count
    waits for it longer than for short pauses. Two choices at once keep Java from starting.
    """
    if any(_COLLECTOR.search(environment.get(name, "")) for name in _ITS_OWN):
        return {}
    return {OPTIONS: "-XX:+UseParallelGC"}
