"""Groups of commands that are imported when they are called, so that help costs nothing."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

COMPLETE_VARIABLE = "_MOLDAU_COMPLETE"
"""How a shell says that it wants words to be completed; click makes the name from the command's."""


class CommandPlace(NamedTuple):
    """Where a command stands, and the line that help shows for it."""

    module: str
    text: str
    section: str = "Commands"


class LazyGroup(click.Group):
    """A group that knows its commands from a table."""

    def __init__(
        self, *arguments: Any, places: Mapping[str, CommandPlace], **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, in the order of the table."""
        del ctx
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command: the object that its module calls as the table does."""
        del ctx
        if cmd_name not in self.places:
            return None
        module = importlib.import_module(self.places[cmd_name].module)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        _mark_paragraphs(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command to run; of a misspelt one the nearest is named."""
        if args[0] not in self.places and not ctx.resilient_parsing:
            from difflib import get_close_matches  # noqa: PLC0415 - only who misspells pays for it

            if near := get_close_matches(args[0], self.places, 1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete names of commands from the table; click would import every one of them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only when it completes

        found = [
            CompletionItem(name, help=place.text)
            for name, place in self.places.items()
            if name.startswith(incomplete)
        ]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by section, without importing them."""
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, place in self.places.items():
            sections.setdefault(place.section, []).append((name, place.text))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)


def _mark_paragraphs(command: click.Command) -> None:
    r"""Turn a written `\b` into the character by which click leaves a paragraph as it stands.

    Texts of help have backslashes, so they are raw strings, in which that character has no name.
    """
    if command.help:
        command.help = command.help.replace("\\b\n", "\b\n")
    if isinstance(command, click.Group):
        for verb in command.commands.values():
            _mark_paragraphs(verb)
