"""`moldau install-shims DIR`: small scripts under Kafka's command names, where they are wanted.

They are shell scripts because Kafka's are: `sh kafka-topics.sh` and `bash kafka-topics.sh` work. A
script replaces itself with `moldau`, so that signals and exit statuses are those of the command.

Nothing is ever installed by itself, and a file that has such a name already is left alone unless
it is ours, so that an installed Kafka is never shadowed by surprise.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final

import click

from moldau.base.errors import UserError
from moldau.cli.kafka.table import TOOLS

COMMAND: Final = "moldau"
MARK: Final = "Made by `moldau install-shims`"
"""What tells a script of ours from anybody else's."""
MARK_WITHIN: Final = 200
"""Bytes from the start of a script within which the mark is."""
EXECUTABLE: Final = 0o777
"""The mode of a new script, before the user's umask is taken off."""

SHELL_SCRIPT: Final = """\
#!/bin/sh
# {mark}. If that environment is gone, the moldau on PATH is run.
moldau={target}
[ -x "$moldau" ] || moldau=moldau
exec "$moldau" {name} "$@"
"""
BATCH_FILE: Final = '@rem {mark}.\r\n@"{target}" {name} %*\r\n'


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--force", is_flag=True, help="Replace files that have these names already.")
def install_shims(folder: Path, force: bool) -> None:
    """Put kafka-topics.sh and its like into FOLDER; put FOLDER on PATH to use them."""
    target = _target()
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{name}{ending}" for name in TOOLS for ending in _endings()]
    taken = [name for name in names if not force and not _is_free(folder / name, target)]
    if taken:
        raise UserError(f"{folder} has {taken[0]} already; --force replaces it")
    for name in names:
        _write(folder / name, _script(target, name))
    click.echo(f"{len(names)} names in {folder}")


def _endings() -> tuple[str, ...]:
    return (".bat",) if os.name == "nt" else ("", ".sh")


def _target() -> Path:
    beside = Path(sys.executable).with_name(COMMAND)
    found = str(beside) if beside.exists() else shutil.which(COMMAND)
    if found is None:
        raise UserError(f"{COMMAND} is not on PATH, so no script can run it")
    return Path(found).absolute()


def _is_free(place: Path, target: Path) -> bool:
    """Tell whether a name is not taken, or only by a script of ours or a link of earlier ones."""
    if place.is_symlink():
        return place.readlink() == target
    if not place.exists():
        return True
    if not place.is_file():
        return False
    with place.open("rb") as file:
        return MARK.encode() in file.read(MARK_WITHIN)


def _script(target: Path, name: str) -> str:
    if os.name == "nt":
        return BATCH_FILE.format(mark=MARK, target=target, name=name)
    return SHELL_SCRIPT.format(mark=MARK, target=shlex.quote(str(target)), name=name)


def _write(place: Path, script: str) -> None:
    """Write a script in the place of whatever is there; a link there is not followed."""
    place.unlink(missing_ok=True)
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, EXECUTABLE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.fsencode(script))
