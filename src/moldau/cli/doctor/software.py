"""Checks of what is installed: Python, this package, the libraries of its extras, Java."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moldau.cli.doctor.findings import Finding, Result, ok
from moldau.cli.doctor.machine import Machine

PYTHON_MIN: Final = (3, 11)
PYTHON_MAX: Final = (3, 14)
"""The newest release that the tests run on."""


@dataclass(frozen=True, slots=True)
class Extra:
    """Libraries that are installed together by a name, `pip install 'moldau[NAME]'`."""

    purpose: str
    distributions: tuple[str, ...]


EXTRAS: Final[Mapping[str, Extra]] = {
    "arrow": Extra("records as Arrow tables", ("numpy", "pyarrow")),
    "avro": Extra("values in Avro", ("fastavro",)),
    "collect": Extra("moldau collect metrics", ("psutil",)),
    "protobuf": Extra("values in Protobuf", ("protobuf",)),
    "spark": Extra("Spark and moldau pipeline", ("numpy", "pyarrow", "pyspark")),
    "zookeeper": Extra("clusters on ZooKeeper", ("kazoo",)),
}
"""The optional dependencies of pyproject.toml."""


def check_software(machine: Machine, *, is_on_zookeeper: bool) -> Iterator[Finding]:
    """Check everything that is installed."""
    yield _python(machine)
    yield _form(machine)
    yield _checksums(machine)
    for name, extra in EXTRAS.items():
        yield _extra(machine, name, extra, is_needed=is_on_zookeeper and name == "zookeeper")
    yield _java(machine)


def _python(machine: Machine) -> Finding:
    python = machine.python()
    found = f"{python.implementation} {python}"
    if python.version[:2] < PYTHON_MIN:
        return Finding("python", Result.PROBLEM, found, "Install Python 3.11 or newer")
    if python.implementation != "CPython" or python.version[:2] > PYTHON_MAX:
        advice = "Use CPython 3.11 to 3.14, which are tested"
        return Finding("python", Result.ADVICE, found, advice)
    return ok("python", found)


def _form(machine: Machine) -> Finding:
    if machine.is_compiled():
        return ok("compiled", "yes")
    advice = "For production, install the compiled wheel: make wheel"
    return Finding("compiled", Result.ADVICE, "no", advice)


def _checksums(machine: Machine) -> Finding:
    if machine.has_crc_instruction():
        return ok("checksums", "by the processor")
    advice = "Use a processor with a CRC-32C instruction: every batch is checked"
    return Finding("checksums", Result.ADVICE, "in software", advice)


def _extra(machine: Machine, name: str, extra: Extra, *, is_needed: bool) -> Finding:
    check = f"extra {name}"
    versions = {one: machine.installed_version(one) for one in extra.distributions}
    missing = [one for one, version in versions.items() if version is None]
    if not missing:
        return ok(check, ", ".join(f"{one} {version}" for one, version in versions.items()))
    result = Result.PROBLEM if is_needed else Result.OPTIONAL
    advice = f"For {extra.purpose}: pip install 'moldau[{name}]'"
    return Finding(check, result, f"{', '.join(missing)} not installed", advice)


def _java(machine: Machine) -> Finding:
    java = machine.java()
    if java.path is not None:
        return ok("java", java.path)
    needs = machine.installed_version("pyspark") is not None
    advice = (
        "For Spark or a ZooKeeper: install Java 17 or newer (Debian: apt install"
        " default-jre-headless), or set JAVA_HOME"
    )
    return Finding("java", Result.ADVICE if needs else Result.OPTIONAL, java.reason, advice)
