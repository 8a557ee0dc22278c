"""The verbs of `moldau metadata`; each is imported when it is called."""

from __future__ import annotations

import click

from moldau.cli.frame.lazy import CommandPlace, LazyGroup

VERBS = {
    "ls": CommandPlace("moldau.cli.metadata.ls", "List one folder of the tree."),
    "cat": CommandPlace("moldau.cli.metadata.cat", "Print one value, or a folder as JSON."),
    "tree": CommandPlace("moldau.cli.metadata.tree", "Draw the tree below a folder."),
    "find": CommandPlace("moldau.cli.metadata.find", "Find entries by name and value."),
    "log": CommandPlace("moldau.cli.metadata.log", "Print the records of the log, one per line."),
}


@click.group(cls=LazyGroup, places=VERBS)
def metadata() -> None:
    r"""Inspect the metadata of a cluster: a log or a snapshot, read from files.

    \b
    moldau metadata ls /topics --folder /var/lib/moldau
    moldau metadata cat /topics/orders/partitions/0/isr
    moldau metadata tree /brokers/1
    moldau metadata find '/topics/*/partitions/*/leader' --value -
    moldau metadata log --from 1000

    Files are opened read-only, so the node may be running.
    """
