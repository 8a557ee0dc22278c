"""What the verbs share: where to read, how to print, and completing paths."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

import click

from moldau.base.errors import MoldauError, UserError
from moldau.cli.frame.texts import safe
from moldau.cli.metadata.batches import DamagedMetadata
from moldau.cli.metadata.contents import metadata_tree
from moldau.cli.metadata.folder import Node, below, find_node
from moldau.cli.metadata.source import metadata_files
from moldau.cli.metadata.state import MetadataState, read_state
from moldau.storage.disk import Disk

DEFAULT_FOLDER: Final = "moldau-data"
"""Where `moldau serve` without settings keeps its logs."""

COMPLETED_BYTES_MAX: Final = 2 << 20
"""A shell waits while it completes. To read more than this takes longer than half a second."""

COMPLETIONS_MAX: Final = 1_000

Command = Callable[..., None]

logger = logging.getLogger(__name__)

folder_option = click.option(
    "--folder",
    type=click.Path(),
    default=DEFAULT_FOLDER,
    metavar="DIR|FILE",
    help="A log directory, its __cluster_metadata-0, or one .checkpoint or .log file"
    f" [{DEFAULT_FOLDER}].",
)


def form_option(*forms: str) -> Callable[[Command], Command]:
    """Give a command `-o` with the forms that it has; the first is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(forms), default=forms[0], help="Output format."
    )


@contextmanager
def opened_tree(folder: str) -> Iterator[Node]:
    """Read the metadata and give the root of their tree; then tell what there is to note."""
    try:
        state = read_state(Disk(read_only=True), folder)
    except DamagedMetadata as damage:
        raise UserError(f"{damage}; `moldau metadata log` prints what can be read") from damage
    yield metadata_tree(state)
    tell_notes(state.notes)


def tell_notes(notes: Sequence[str]) -> None:
    """Say on standard error what the user should know."""
    for note in notes:
        click.echo(f"moldau: {safe(note)}", err=True)


def complete_path(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Offer the places that begin like this, where the metadata are small."""
    del parameter
    folder = context.params.get("folder") or DEFAULT_FOLDER
    try:
        state = _small_state(folder)
        return [] if state is None else list(islice(_places(state, incomplete), COMPLETIONS_MAX))
    except (MoldauError, OSError):
        logger.debug("nothing to offer", exc_info=True)
        return []


def _small_state(folder: str) -> MetadataState | None:
    disk = Disk(read_only=True)
    is_small = metadata_files(disk, folder).size(disk) <= COMPLETED_BYTES_MAX
    return read_state(disk, folder) if is_small else None


def _places(state: MetadataState, incomplete: str) -> Iterator[str]:
    parent, _, begun = incomplete.rpartition("/")
    found = find_node(metadata_tree(state), parent)
    if isinstance(found.node, Mapping):
        for name in found.node:
            if name.startswith(begun):
                slash = "/" if isinstance(found.node[name], Mapping) else ""
                yield below(found.path, name) + slash
