"""`moldau dump-log`: what lies in log, index, snapshot and checkpoint files, as text.

Takes the options of Kafka's DumpLogSegments and prints its lines. Reads files only, so it works
beside a running broker and on a folder that somebody sent.
"""

from __future__ import annotations

import sys

import click

from moldau.storage.disk import Disk
from moldau.storage.dump import ALL_BYTES, MAX_MESSAGE_SIZE, DumpOptions, LogDump
from moldau.storage.dump_lines import CurrentForm, OldForm

FOUND_CORRUPTION = 1


@click.command()
@click.option(
    "--files", required=True, metavar="FILE[,FILE...]", help="What to dump, separated by commas."
)
@click.option("--print-data-log", is_flag=True, help="Print keys and values too.")
@click.option("--deep-iteration", is_flag=True, help="Print records too, not only batches.")
@click.option("--skip-record-metadata", is_flag=True, help="Of records print only key and value.")
@click.option("--verify-index-only", is_flag=True, help="Check indexes without printing them.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Check indexes only as a starting broker does."
)
@click.option(
    "--max-message-size",
    type=click.IntRange(min=1),
    default=MAX_MESSAGE_SIZE,
    show_default=True,
    help="The largest batch an index entry may point at.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=0),
    default=ALL_BYTES,
    help="Read no more than this of a log.",
)
@click.option(
    "--cluster-metadata-decoder", is_flag=True, help="Print the records of a metadata log as JSON."
)
@click.option("--old-form", is_flag=True, help="Print the lines of Kafka 1.1 instead of Kafka 4.")
def dump_log(files: str, old_form: bool, **flags: bool | int) -> None:
    """Print what lies in log, index, snapshot and checkpoint files.

    Everything found wrong is named on standard error with its file and position, and the exit
    status is then 1.
    """
    form = OldForm() if old_form else CurrentForm()
    dump = LogDump(Disk(read_only=True), DumpOptions(form=form, **flags))  # type: ignore[arg-type]
    # A payload is anybody's bytes: what the terminal cannot show must not end the tool.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    for path in filter(None, files.split(",")):
        for line in dump.lines(path):
            click.echo(line)
    for finding in dump.findings():
        click.echo(finding, err=True)
    if dump.corrupt:
        sys.exit(FOUND_CORRUPTION)
