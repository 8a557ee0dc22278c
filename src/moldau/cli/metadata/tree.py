"""`moldau metadata tree`: everything below a folder, drawn."""

from __future__ import annotations

import click

from moldau.cli.frame.arguments import check_texts
from moldau.cli.metadata.folder import find_node
from moldau.cli.metadata.options import complete_path, folder_option, form_option, opened_tree
from moldau.cli.metadata.printing import json_lines, print_lines, tree_lines


@click.command()
@click.argument("path", default="/", shell_complete=complete_path)
@click.option("-d", "--depth", type=click.IntRange(1), help="Maximum number of levels.")
@folder_option
@form_option("table", "json")
def tree(path: str, depth: int | None, folder: str, output: str) -> None:
    """Draw the tree below a folder; -o json prints all of it as JSON."""
    check_texts([path])
    with opened_tree(folder) as root:
        found = find_node(root, path)
        if output == "json":
            print_lines(json_lines(found.node))
        else:
            print_lines(tree_lines(found.path, found.node, depth))
