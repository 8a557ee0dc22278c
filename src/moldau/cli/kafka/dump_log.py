"""`kafka-dump-log`: what lies in log files; `moldau dump-log` takes Kafka's options already."""

from __future__ import annotations

from collections.abc import Sequence

import click

from moldau.cli.dump_log import dump_log
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.running import CommandFailed


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    del console  # files may be large: their lines go straight to standard output
    try:
        status = dump_log.main(
            list(arguments) or ["--help"], prog_name="kafka-dump-log", standalone_mode=False
        )
    except click.ClickException as error:
        raise CommandFailed(error.format_message()) from None
    except click.exceptions.Exit as end:
        status = end.exit_code
    return status if isinstance(status, int) else 0
