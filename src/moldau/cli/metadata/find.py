"""`moldau metadata find`: places by their names and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import translate
from itertools import chain
from typing import Any

import click

from moldau.base.errors import UserError
from moldau.cli.frame.arguments import check_texts
from moldau.cli.frame.report import cell
from moldau.cli.metadata.folder import FoundNode
from moldau.cli.metadata.options import folder_option, form_option, opened_tree
from moldau.cli.metadata.path_pattern import PathPattern
from moldau.cli.metadata.printing import json_array_lines, print_lines, short


@click.command()
@click.argument("pattern")
@click.option("--value", metavar="PATTERN", help="Only values that match, as `cat` prints them.")
@folder_option
@form_option("table", "json", "name")
def find(pattern: str, value: str | None, folder: str, output: str) -> None:
    r"""Find entries by a pattern for their names or whole paths.

    \b
    moldau metadata find 'orders*'                               matching names, anywhere
    moldau metadata find '/topics/*/partitions/*/leader' --value -   without a leader
    moldau metadata find '/brokers/**'                           everything below

    * ? and [...] match characters of a name, ** matches any folders. The exit status is 1 if
    nothing matches.
    """
    check_texts([pattern, value])
    with opened_tree(folder) as root:
        places = _matching(PathPattern(pattern).select(root), value)
        first = next(places, None)
        if first is None:
            like = "" if value is None else f" with a value that matches {value!r}"
            raise UserError(f"nothing matches {pattern!r}{like}")
        print_lines(_lines(chain((first,), places), output))


def _matching(places: Iterator[FoundNode], value: str | None) -> Iterator[FoundNode]:
    if value is None:
        return places
    wanted = re.compile(translate(value))
    return (
        place
        for place in places
        if not isinstance(place.node, Mapping) and wanted.match(cell(place.node))
    )


def _lines(places: Iterator[FoundNode], output: str) -> Iterator[str]:
    match output:
        case "json":
            return json_array_lines(map(_row, places))
        case "name":
            return (place.path for place in places)
        case _:
            return (f"{place.path}  {short(place.node)}" for place in places)


def _row(place: FoundNode) -> dict[str, Any]:
    if isinstance(place.node, Mapping):
        return {"path": place.path, "entries": len(place.node)}
    return {"path": place.path, "value": place.node}
