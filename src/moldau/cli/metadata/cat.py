"""`moldau metadata cat`: one value, or all of a folder as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import click

from moldau.cli.frame.arguments import check_texts
from moldau.cli.frame.report import cell
from moldau.cli.metadata.folder import find_node
from moldau.cli.metadata.options import complete_path, folder_option, form_option, opened_tree
from moldau.cli.metadata.printing import json_lines, print_lines


@click.command()
@click.argument("path", shell_complete=complete_path)
@folder_option
@form_option("table", "json")
def cat(path: str, folder: str, output: str) -> None:
    """Print one value, or a folder as JSON.

    Items of a list are separated by commas, and null is printed as -. Use -o json for exact values.
    """
    check_texts([path])
    with opened_tree(folder) as root:
        node = find_node(root, path).node
        if output == "json" or isinstance(node, Mapping):
            print_lines(json_lines(node))
        else:
            print_lines([cell(node)])
