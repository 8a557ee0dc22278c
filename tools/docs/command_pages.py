"""The pages of the command line: the help of every command, as the command prints it.

Each command at the top has a page, and so has each group within it. The text is click's own, laid
out for the same width everywhere.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from typing import Final

import click
from tools.docs.markdown import block, code, page, table

from moldau.cli.kafka.table import ABSENT, TOOLS
from moldau.cli.main import COMMANDS, cli

WIDTH: Final = 100


def command_pages() -> dict[str, str]:
    """Return every page of the command line by its name below `docs/reference/`."""
    root = _context(cli, "moldau", None)
    pages = {"cli/README.md": _index(root), "cli/kafka.md": _kafka_page()}
    for name, command in _commands(root):
        pages |= _pages(_context(command, name, root))
    return pages


def _index(root: click.Context) -> str:
    blocks = []
    for section in dict.fromkeys(place.section for place in COMMANDS.values()):
        rows = [
            (f"[moldau {name}]({name}.md)", place.text)
            for name, place in COMMANDS.items()
            if place.section == section
        ]
        blocks += [f"## {section}", table(("command", "what it does"), rows)]
    return page(
        "Commands",
        "Every command with its options, as `--help` prints them. [The command line](../../cli.md) "
        "shows how they are used; [Kafka's own commands](kafka.md) are there too.",
        *blocks,
        "## Exit status",
        (root.command.epilog or "").strip(),
    )


def _pages(context: click.Context) -> dict[str, str]:
    """Return the page of a command, and those of groups below it."""
    blocks = [block(context.get_help())]
    pages: dict[str, str] = {}
    for name, command in _commands(context):
        below = _context(command, name, context)
        if isinstance(command, click.Group):
            pages |= _pages(below)
            link = f"{_file_name(below)}.md"
            blocks += [f"## {below.command_path}", f"It has [a page of its own]({link})."]
        else:
            blocks += [f"## {below.command_path}", block(below.get_help())]
    return {f"cli/{_file_name(context)}.md": page(context.command_path, *blocks)} | pages


def _file_name(context: click.Context) -> str:
    return "-".join(context.command_path.split()[1:])


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None, name
            if not command.hidden:
                yield name, command


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    # A command keeps the names of its help option from its first call, which may have lacked -h.
    fresh = copy.copy(command)
    fresh._help_option = None  # noqa: SLF001 - click has no other way
    return click.Context(
        fresh,
        info_name=name,
        parent=parent,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )


def _kafka_page() -> str:
    tools = [(code(name), _about(tool.module)) for name, tool in TOOLS.items()]
    absent = [(code(name), text) for name, text in ABSENT.items()]
    return page(
        "Kafka's own commands",
        "They are called as `moldau kafka-topics` and so on, or under Kafka's names after "
        "[moldau install-shims](install-shims.md). Options, output and exit status are those of "
        "Kafka 4.3.1, and `--help` prints them.",
        table(("command", "what it does"), sorted(tools)),
        "## Not there",
        "These names are known, and say in one line that Moldau does not have them:",
        table(("command", "what it is about"), absent),
    )


def _about(module_name: str) -> str:
    """Return what a command's module says of it in its first line, behind the command's name."""
    module = importlib.import_module(f"moldau.cli.kafka.{module_name}")
    line = (module.__doc__ or "").splitlines()[0]
    _, _, text = line.partition("`: ")
    return f"{text[0].upper()}{text[1:]}".rstrip(".") + "."
