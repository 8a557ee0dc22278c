"""Writes a manual page for each command, from the texts that `--help` shows: `make man`.

    python packaging/man_pages.py FOLDER

click-man does the same for other programs. It leaves out commands that are imported when they are
called, cuts summaries after 45 characters, and does not escape backslashes, which our formats have.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from moldau import __version__
from moldau.cli.frame.lazy import LazyGroup
from moldau.cli.main import cli

SUMMARY_MAX = 200
AS_IT_STANDS = "\b\n"
"""How a paragraph begins whose lines click leaves alone."""


def main() -> None:
    """Write all pages into a folder."""
    if len(sys.argv) != 2:
        sys.exit("usage: man_pages.py FOLDER")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages():
        (folder / name).write_text(text, encoding="utf-8")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the file name and the text of each page."""
    for context in contexts(root()):
        yield f"{page_name(context)}.1", page(context)


def root() -> click.Context:
    """Return the context of the whole command."""
    return click.Context(cli, info_name="moldau", **cli.context_settings)


def contexts(context: click.Context) -> Iterator[click.Context]:
    """Yield a command, and those below it."""
    yield context
    for name, command in _below(context):
        yield from contexts(click.Context(command, info_name=name, parent=context))


def page(context: click.Context) -> str:
    """Write the page of one command."""
    command, name = context.command, page_name(context)
    lines = [
        f'.TH "{escaped(name.upper())}" 1 "" "moldau {__version__}" "Moldau"',
        ".SH NAME",
        rf"{escaped(name)} \- {escaped(summary(context).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(context.command_path)}",
        escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_text(command.help or ""),
    ]
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    records = [one.get_help_record(context) for one in options]
    lines += _definitions("OPTIONS", [record for record in records if record is not None])
    lines += _definitions(
        "COMMANDS", [(one.info_name or "", summary(one)) for one in _children(context)]
    )
    if command.epilog:
        lines += [".SH EXIT STATUS", *_text(command.epilog)]
    related = [one for one in (context.parent, *_children(context)) if one is not None]
    if related:
        names = [rf"\fB{escaped(page_name(one))}\fR(1)" for one in related]
        lines += [".SH SEE ALSO", ", ".join(names)]
    return "\n".join(lines) + "\n"


def page_name(context: click.Context) -> str:
    """Return the name of the page, as `man` looks for it."""
    return context.command_path.replace(" ", "-")


def summary(context: click.Context) -> str:
    """Return one line about a command."""
    group = context.parent.command if context.parent is not None else None
    if isinstance(group, LazyGroup) and context.info_name in group.places:
        return group.places[context.info_name].text
    return context.command.get_short_help_str(SUMMARY_MAX)


def escaped(text: str) -> str:
    r"""Write a text so that troff obeys nothing in it.

    >>> escaped(".sh -v '\\n'")
    "\\&.sh \\-v '\\en'"
    """
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", plain, flags=re.MULTILINE)


def _below(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if command is not None and not command.hidden:
                yield name, command


def _children(context: click.Context) -> list[click.Context]:
    return [
        click.Context(command, info_name=name, parent=context) for name, command in _below(context)
    ]


def _text(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith(AS_IT_STANDS):
            yield from (".PP", ".nf", escaped(paragraph.removeprefix(AS_IT_STANDS)), ".fi")
        else:
            yield from (".PP", escaped(paragraph))


def _definitions(title: str, records: list[tuple[str, str]]) -> Iterator[str]:
    if records:
        yield f".SH {title}"
    for term, text in records:
        yield from (".TP", rf"\fB{escaped(term)}\fR", escaped(text) or r"\&")


if __name__ == "__main__":
    main()
