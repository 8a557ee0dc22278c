"""`moldau metadata ls`: one folder, an entry a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from moldau.cli.frame.arguments import check_texts
from moldau.cli.metadata.folder import FoundNode, find_node
from moldau.cli.metadata.options import complete_path, folder_option, form_option, opened_tree
from moldau.cli.metadata.printing import json_array_lines, print_lines, short


@click.command()
@click.argument("path", default="/", shell_complete=complete_path)
@folder_option
@form_option("table", "json", "name")
def ls(path: str, folder: str, output: str) -> None:
    """List one folder of the tree, or one value; names of folders end in a slash."""
    check_texts([path])
    with opened_tree(folder) as root:
        found = find_node(root, path)
        match output:
            case "json":
                print_lines(json_array_lines(map(_row, _entries(found))))
            case "name":
                print_lines(entry.name for entry in _entries(found))
            case _:
                print_lines(_table(found))


def _entries(found: FoundNode) -> Iterator[FoundNode]:
    """Yield what is in a folder; a value stands for itself."""
    if not isinstance(found.node, Mapping):
        yield found
        return
    for name in found.node:
        yield FoundNode(name, found.node[name])


def _row(entry: FoundNode) -> dict[str, Any]:
    if isinstance(entry.node, Mapping):
        return {"name": entry.name, "entries": len(entry.node)}
    return {"name": entry.name, "value": entry.node}


def _table(found: FoundNode) -> Iterator[str]:
    """Yield aligned lines. Names are known before the entries are made."""
    names = found.node if isinstance(found.node, Mapping) else (found.name,)
    width = max((len(name) + 1 for name in names), default=0)
    yield f"{'NAME'.ljust(width)}  VALUE"
    for entry in _entries(found):
        name = f"{entry.name}/" if isinstance(entry.node, Mapping) else entry.name
        yield f"{name.ljust(width)}  {short(entry.node)}"
