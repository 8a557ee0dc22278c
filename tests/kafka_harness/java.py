"""Running Java: a main class of a Kafka version, or a small source of ours compiled against it.

A tool's JVM lives for a second or two, so it starts with the quick compiler and the plain
collector only. Every run has a deadline; what outlives it is killed by its process id.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .distribution import cache_directory, jars, lock, require

QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx512M")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
"""The binding writes to standard error; only what goes wrong belongs there."""


class JavaError(AssertionError):
    """A Java program ended badly or not at all; the text holds all it said."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a Java program left behind."""

    stdout: str
    stderr: str
    status: int

    @property
    def lines(self) -> list[str]:
        """Return standard output, line by line."""
        return self.stdout.splitlines()


def run_class(
    version: str,
    main_class: str,
    *arguments: object,
    stdin: str = "",
    timeout_s: float = 60,
    check: bool = True,
    extra_classpath: Path | None = None,
    properties: Mapping[str, str] | None = None,
) -> Output:
    """Run a main class of Kafka `version`; with `check` anything but status 0 is an error."""
    command = _command(version, main_class, arguments, extra_classpath, properties or {})
    said = f"{main_class} of Kafka {version} {' '.join(map(str, arguments))}"
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise JavaError(
            f"{said}: still running after {timeout_s} s\n{_text(late.stdout)}{_text(late.stderr)}"
        ) from None
    if check and done.returncode != 0:
        raise JavaError(f"{said}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return Output(done.stdout, done.stderr, done.returncode)


def run_source(
    version: str, source: Path, *arguments: object, timeout_s: float = 60, **options: object
) -> Output:
    """Compile one source file against Kafka `version` (once) and run its main class."""
    classes = compiled(version, source)
    return run_class(
        version,
        source.stem,
        *arguments,
        timeout_s=timeout_s,
        extra_classpath=classes,
        **options,  # type: ignore[arg-type]
    )


def class_command(
    version: str,
    main_class: str,
    *arguments: object,
    properties: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the command line of a main class of Kafka `version`, for a process that stays."""
    return _command(version, main_class, arguments, None, properties or {})


def java_command(version: str, source: Path, *arguments: object) -> list[str]:
    """Return the command line of a compiled source, for a process that is talked to."""
    return _command(version, source.stem, arguments, compiled(version, source), {})


def compiled(version: str, source: Path) -> Path:
    """Return the folder with the classes of a source, kept by the hash of its text."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    place = cache_directory() / "java" / f"{source.stem}-{version}-{digest}"
    if not place.exists():
        with lock(place.parent):
            if not place.exists():
                _compile(version, source, place)
    return place


def _command(
    version: str,
    main_class: str,
    arguments: tuple[object, ...],
    extra_classpath: Path | None,
    properties: Mapping[str, str],
) -> list[str]:
    entries = [str(jars(version) / "*"), *([str(extra_classpath)] if extra_classpath else [])]
    defines = [f"-D{name}={value}" for name, value in properties.items()]
    return [
        require("java"), *QUICK_START, QUIET, *defines, "-cp", ":".join(entries), main_class,
        *(str(argument) for argument in arguments),
    ]  # fmt: skip


def _compile(version: str, source: Path, place: Path) -> None:
    partial = place.with_suffix(".partial")
    command = [
        require("javac"), "-nowarn", "-proc:none", "-Xlint:none", "-d", str(partial),
        "-cp", str(jars(version) / "*"), str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise JavaError(f"javac {source.name} against Kafka {version}:\n{done.stderr}")
    partial.rename(place)


def _text(captured: bytes | str | None) -> str:
    return captured.decode(errors="replace") if isinstance(captured, bytes) else captured or ""
