"""The `moldau` command: finds a subcommand, imports it alone, turns errors into a line."""

from __future__ import annotations

import importlib
import sys

import click

from moldau import __version__
from moldau.base.errors import StorageError, UserError

COMMANDS = {
    "serve": ("moldau.cli.serve", "Start a broker."),
    "dump-log": ("moldau.cli.dump_log", "Print what lies in log, index and checkpoint files."),
}
"""Name -> (module, one line of help); a module is imported when its command is called."""


class LazyGroup(click.Group):
    """A group whose help costs no imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name every command, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_module, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="moldau %(version)s")
def cli() -> None:
    """A replicated commit log that speaks Kafka's protocol and keeps Kafka's files."""


def main() -> None:
    """Run the command line; what goes wrong is one line on stderr and a status above zero."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except (UserError, StorageError) as error:
        click.echo(f"moldau: {error}", err=True)
        sys.exit(1)
