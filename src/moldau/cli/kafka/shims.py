"""`moldau install-shims DIR`: Kafka's command names as links to `moldau`, where they are wanted.

Nothing is ever linked by itself, and a name that stands there already is left alone unless it is a
link of ours, so that an installed Kafka is never shadowed by surprise.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from moldau.base.errors import UserError
from moldau.cli.kafka.table import TOOLS

COMMAND = "moldau"


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace what stands there under these names.")
def install_shims(folder: Path, force: bool) -> None:
    """Link kafka-topics.sh and its like in FOLDER; put FOLDER on PATH to use them."""
    target = _target()
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{name}{ending}" for name in TOOLS for ending in _endings()]
    taken = [name for name in names if not force and not _is_free(folder / name, target)]
    if taken:
        raise UserError(f"{folder} has {taken[0]} already; --force replaces it")
    for name in names:
        _link(folder / name, target, name)
    click.echo(f"{len(names)} names in {folder}")


def _endings() -> tuple[str, ...]:
    return (".bat",) if os.name == "nt" else ("", ".sh")


def _target() -> Path:
    beside = Path(sys.executable).with_name(COMMAND)
    found = str(beside) if beside.exists() else shutil.which(COMMAND)
    if found is None:
        raise UserError(f"{COMMAND} is not on PATH, so nothing can be linked to it")
    return Path(found).absolute()


def _is_free(place: Path, target: Path) -> bool:
    if place.is_symlink():
        return place.readlink() == target
    return not place.exists()


def _link(place: Path, target: Path, name: str) -> None:
    place.unlink(missing_ok=True)
    if os.name == "nt":
        place.write_text(f'@"{target}" {name} %*\r\n')
    else:
        place.symlink_to(target)
