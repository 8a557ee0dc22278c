"""Small and read-only volumes for tests, where the system lets us mount."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no mount without privileges: {done.stderr.strip()}")


@contextmanager
def small_volume(place: Path, size: int) -> Iterator[Path]:
    """Mount an empty volume of this many bytes."""
    place.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def grow(place: Path, size: int) -> None:
    """Give a volume more space."""
    _mount("-o", f"remount,size={size}", str(place))


def fill(place: Path) -> Path:
    """Take all the space there is; returns the file to remove for its return."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return filler


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Let nobody write below a folder, not even root."""
    _mount("--bind", str(place), str(place))
    try:
        _mount("-o", "remount,ro,bind", str(place))
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
