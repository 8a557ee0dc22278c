"""The `moldau` command: finds a subcommand, imports it alone, turns errors into a line."""

from __future__ import annotations

import atexit
import gc
import os
import sys

import click

from moldau.base.errors import InvariantViolated, MoldauError
from moldau.cli.frame.failures import INTERRUPTED, REFUSED, complain
from moldau.cli.frame.lazy import COMPLETE_VARIABLE, CommandPlace, LazyGroup
from moldau.cli.frame.version import show_version
from moldau.cli.kafka.table import called_tool, run_tool

RECORDS = "Send and read records"
CLUSTER = "Manage a cluster"
BROKERS = "Run brokers"
AROUND = "Set up the command line"

COMMANDS = {
    "produce": CommandPlace("moldau.cli.produce", "Send lines as records.", RECORDS),
    "consume": CommandPlace("moldau.cli.consume", "Print records.", RECORDS),
    "bench": CommandPlace("moldau.cli.bench", "Measure produce, consume and latency.", RECORDS),
    "collect": CommandPlace("moldau.cli.collect", "Collect log files and measurements.", RECORDS),
    "pipeline": CommandPlace(
        "moldau.cli.pipeline", "Pipelines on Spark: run, status, stop.", RECORDS
    ),
    "table": CommandPlace("moldau.cli.table", "Tables of pipelines: rows, counts, SQL.", RECORDS),
    "logs": CommandPlace("moldau.cli.logs", "Search in what the log pipeline has filed.", RECORDS),
    "topic": CommandPlace(
        "moldau.cli.nouns.topic", "Topics: list, create, describe, trim...", CLUSTER
    ),
    "group": CommandPlace(
        "moldau.cli.nouns.group", "Consumer groups: lag, members, seek...", CLUSTER
    ),
    "config": CommandPlace("moldau.cli.nouns.config", "Configs of topics and brokers.", CLUSTER),
    "cluster": CommandPlace(
        "moldau.cli.nouns.cluster", "The cluster: status, health, up...", CLUSTER
    ),
    "broker": CommandPlace("moldau.cli.nouns.broker", "Brokers: list, describe, config.", CLUSTER),
    "quorum": CommandPlace(
        "moldau.cli.nouns.quorum", "The metadata quorum: status, add, replace...", CLUSTER
    ),
    "log": CommandPlace("moldau.cli.nouns.log", "Log directories and log files.", CLUSTER),
    "metadata": CommandPlace(
        "moldau.cli.metadata.commands", "Cluster metadata as a tree, read from files.", CLUSTER
    ),
    "txn": CommandPlace(
        "moldau.cli.nouns.txn", "Transactions: list, find hanging, abort...", CLUSTER
    ),
    "serve": CommandPlace("moldau.cli.serve", "Start a broker.", BROKERS),
    "dev": CommandPlace("moldau.cli.dev", "Start a temporary broker.", BROKERS),
    "dump-log": CommandPlace(
        "moldau.cli.dump_log", "Print log, index and checkpoint files.", BROKERS
    ),
    "doctor": CommandPlace(
        "moldau.cli.doctor.command", "Check whether this machine is ready for a broker.", BROKERS
    ),
    "profile": CommandPlace("moldau.cli.nouns.profile", "Named connections to clusters.", AROUND),
    "install-shims": CommandPlace(
        "moldau.cli.kafka.shims", "Install Kafka's commands as scripts.", AROUND
    ),
    "completion": CommandPlace("moldau.cli.frame.completion", "Shell completion.", AROUND),
}
"""Every command; a module is imported when its command is called."""


@click.group(
    cls=LazyGroup,
    places=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 success, 1 failure, 2 usage error, 3 no broker found, 130 interrupted.",
)
@click.option(
    "-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version,
    help="Show the version and exit.",
)  # fmt: skip
def cli() -> None:
    """A replicated commit log that speaks Kafka's protocol and keeps Kafka's files."""


def main() -> None:
    """Run the command line; what goes wrong is one line on stderr and a status above zero."""
    # What is left then ends with the process. Python would look through all of it for garbage
    # first: with numpy and pyarrow loaded, for a tenth of the time of a search in logs.
    atexit.register(gc.freeze)
    try:
        sys.exit(_run())
    except BrokenPipeError:
        # Who read our output has seen enough: end as click does when it is the one to notice.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(REFUSED)


def _run() -> int:
    if (tool := called_tool(sys.argv)) is not None:
        return run_tool(*tool)
    if os.environ.get(COMPLETE_VARIABLE):
        from moldau.cli.frame import powershell  # noqa: PLC0415 - only where a shell completes

        powershell.register()
    try:
        status = cli.main(prog_name="moldau", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except RuntimeError as error:
        # Ctrl-C in the middle of a wait for a lock: Python then stumbles over the lock itself.
        if isinstance(error.__context__, KeyboardInterrupt):
            return INTERRUPTED
        raise
    except InvariantViolated:
        raise  # a bug of ours: its trace is worth more than a line
    except MoldauError as error:
        return complain(error)
    return status if isinstance(status, int) else 0
