"""`moldau dump-log`: what lies in log, index, snapshot and checkpoint files, as text.

Takes the options of Kafka's DumpLogSegments and prints its lines. Reads files only, so it works
beside a running broker and on a folder that somebody sent.
"""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path

import click

from moldau.base.errors import UserError
from moldau.coordination.record_texts import offsets_record, transaction_record
from moldau.storage.disk import Disk
from moldau.storage.dump import ALL_BYTES, MAX_MESSAGE_SIZE, DumpOptions, LogDump
from moldau.storage.dump_decoders import STRING_DECODER, Decoder, by_classes, metadata_record
from moldau.storage.dump_lines import CurrentForm, OldForm

FOUND_CORRUPTION = 1

DECODERS: dict[str, Decoder] = {
    "offsets": offsets_record,
    "transactions": transaction_record,
    "metadata": metadata_record,
}
"""What each of the options names; the last one given counts."""


@click.command()
@click.argument("paths", nargs=-1, metavar="[FILE|DIR]...")
@click.option(
    "--files", default="", metavar="FILE[,FILE...]", help="What to dump, separated by commas."
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
    "--offsets-decoder",
    "decoder",
    flag_value="offsets",
    help="Print the records of __consumer_offsets as JSON.",
)
@click.option(
    "--transaction-log-decoder",
    "decoder",
    flag_value="transactions",
    help="Print the records of __transaction_state as JSON.",
)
@click.option(
    "--cluster-metadata-decoder",
    "decoder",
    flag_value="metadata",
    help="Print the records of a metadata log as JSON.",
)
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value=STRING_DECODER,
    metavar="[CLASS]",
    help="Print keys as Kafka's StringDecoder, IntegerDecoder or LongDecoder reads them.",
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value=STRING_DECODER,
    metavar="[CLASS]",
    help="The same for values.",
)
@click.option("--old-form", is_flag=True, help="Print the lines of Kafka 1.1 instead of Kafka 4.")
def dump_log(
    paths: tuple[str, ...],
    files: str,
    old_form: bool,
    decoder: str | None,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    **flags: bool | int,
) -> None:
    """Print what lies in log, index, snapshot and checkpoint files.

    A folder stands for the .log files in it and in the folders below.

    Everything found wrong is named on standard error with its file and position, and the exit
    status is then 1.
    """
    named = [*chain.from_iterable(map(_files_of, paths)), *filter(None, files.split(","))]
    if not named:
        raise click.UsageError("name files or a folder to dump, or give --files")
    options = DumpOptions(
        form=OldForm() if old_form else CurrentForm(),
        decoder=_decoder(decoder, key_decoder_class, value_decoder_class),
        **flags,  # type: ignore[arg-type]
    )
    dump = LogDump(Disk(read_only=True), options)
    # A payload is anybody's bytes: what the terminal cannot show must not end the tool.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    for path in named:
        for line in dump.lines(path):
            click.echo(line)
    for finding in dump.findings():
        click.echo(finding, err=True)
    if dump.corrupt:
        sys.exit(FOUND_CORRUPTION)


def _files_of(path: str) -> list[str]:
    """Return a file, or the logs in a folder; UserError if it has none, or is not there."""
    if not Path(path).exists():
        raise UserError(f"there is no file or folder {path}")
    if not Path(path).is_dir():
        return [path]
    found = sorted(str(one) for one in Path(path).rglob("*.log"))
    if not found:
        raise UserError(f"there is no .log file in {path}")
    return found


def _decoder(name: str | None, key_class: str | None, value_class: str | None) -> Decoder | None:
    """Choose a decoder: one for a topic wins over classes, as in Kafka's tool."""
    if name is not None:
        return DECODERS[name]
    if key_class or value_class:
        return by_classes(key_class or STRING_DECODER, value_class or STRING_DECODER)
    return None
