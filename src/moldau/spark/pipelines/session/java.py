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
_ADVICE: Final = f"install it, or set JAVA_HOME to a Java {NEEDED} or newer"
OPTIONS: Final = "spark.driver.extraJavaOptions"
_OPTIONS: Final = (OPTIONS, "spark.driver.defaultJavaOptions")
_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_DEFAULTS: Final = ("SPARK_HOME", "SPARK_CONF_DIR")
"""Who sets these may have a spark-defaults.conf, whose options of Java ours would replace."""


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
        return f"pipelines need Java {NEEDED}, and there is no Java {where}: {_ADVICE}"
    if version < NEEDED:
        return f"pipelines need Java {NEEDED}, and the one here is Java {version}: {_ADVICE}"
    return None


def collecting(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the setting for a machine that is shared with brokers, unless Java was given any.

    Java's usual collector works beside its program, on cores that are not free here, and a count
    waits for it longer than for short pauses. Two choices at once keep Java from starting.
    """
    is_given = any(name in given for name in _OPTIONS)
    if is_given or any(name in environment for name in (*_VARIABLES, *_DEFAULTS)):
        return {}
    return {OPTIONS: "-XX:+UseParallelGC"}
