"""What a ZooKeeper server is run with: a Java, and the jars of ZooKeeper.

Nothing is downloaded. PySpark brings ZooKeeper's jars, and Debian has a package of them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.base.errors import UserError

JAVA_MIN: Final = 17
PACKAGED_JARS: Final = Path("/usr/share/java")
"""Where Debian puts them. The first jar names those that it needs."""
PACKAGED: Final = ("zookeeper.jar", "slf4j-simple.jar")

_ASK_TIMEOUT_S: Final = 60
_PROPERTY: Final = re.compile(r"^ +(java\.home|java\.specification\.version) = (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Installation:
    """A Java that is new enough, and a class path with ZooKeeper."""

    java: str
    class_path: str


class NoJava(UserError):  # noqa: N818 - it names what is missing
    """There is no Java that is new enough."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"ZooKeeper needs Java {JAVA_MIN} or newer: {reason}. Install one, on Debian with"
            " apt install default-jre-headless, or set JAVA_HOME"
        )
        self.reason = reason


def find_installation(
    environ: Mapping[str, str], packaged_jars: Path = PACKAGED_JARS
) -> Installation:
    """Find Java and the jars; UserError says what to install."""
    return Installation(find_java(environ), find_class_path(packaged_jars))


def find_java(environ: Mapping[str, str]) -> str:
    """Return the Java of JAVA_HOME, else that on PATH; UserError if it is missing or too old."""
    if home := environ.get("JAVA_HOME"):
        named = str(Path(home) / "bin" / "java")
        found = shutil.which(named)
        missing = f"JAVA_HOME={home} has no bin/java"
    else:
        found = shutil.which("java", path=environ.get("PATH", ""))
        missing = "java is not on PATH, and JAVA_HOME is not set"
    if found is None:
        raise NoJava(missing)
    return _checked(found)


def _checked(java: str) -> str:
    """Return the program itself: what is found may be a script that runs it.

    A later command knows the server by its command line, which a script would still change.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True, text=True, errors="replace", timeout=_ASK_TIMEOUT_S, check=False,
            start_new_session=True,  # Ctrl-C is for the command: Java would end without an answer
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoJava(f"cannot run {java}: {error}") from None
    told = dict(_PROPERTY.findall(done.stderr))
    version = told.get("java.specification.version", "")
    if not version.isdigit() or int(version) < JAVA_MIN:
        # Before 9 a version was 1.8, and other programs tell none at all.
        found = f"is Java {version}" if version else "does not tell its version"
        raise NoJava(f"{java} {found}")
    program = Path(told.get("java.home", "")) / "bin" / "java"
    return str(program) if program.is_file() else java


def find_class_path(packaged_jars: Path = PACKAGED_JARS) -> str:
    """Return the jars of PySpark, else those of Debian; UserError if there are none."""
    spark = importlib.util.find_spec("pyspark")
    if spark is not None and spark.origin is not None:
        jars = Path(spark.origin).parent / "jars"
        if any(jars.glob("zookeeper-*.jar")):
            return str(jars / "*")
    if (packaged_jars / PACKAGED[0]).exists():
        return ":".join(str(packaged_jars / name) for name in PACKAGED)
    raise UserError(
        "ZooKeeper's jars are not installed: pip install 'moldau[spark]' brings them,"
        " on Debian also apt install libzookeeper-java"
    )
