"""`moldau pipeline`: runs, shows and stops pipelines on Spark, and prints spark-submit commands.

The options of a pipeline come from its declaration. Spark is imported only by commands that run it.
`spark-submit` can also run this file, with the arguments of `moldau pipeline`.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moldau.base.errors import UserError
from moldau.cli.frame.connection import Connection, connection_options, hide_client_warnings
from moldau.cli.frame.durations import Milliseconds, duration_text
from moldau.cli.frame.output import output_option
from moldau.cli.frame.output import show as show_report
from moldau.cli.frame.texts import safe
from moldau.cli.operations.connecting import SERVERS
from moldau.cli.pipelines.file import KIND, read_file
from moldau.cli.pipelines.view import status_report, view
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.declaration import (
    PARQUET,
    TABLE_FORMATS,
    Kind,
    Option,
    Pipeline,
)

if TYPE_CHECKING:
    from moldau.spark.pipelines.running.frame import Order

Command = Callable[..., None]

STOP_TIMEOUT_S: Final = 300
"""How long `stop` waits: a batch may be large."""
_POLL_S: Final = 0.2

_KINDS: Final[Mapping[Kind, click.ParamType[Any]]] = {
    Kind.TEXT: click.STRING,
    Kind.COUNT: click.IntRange(1, 2**31 - 1),
    Kind.RATIO: click.FloatRange(0, 1),
}


@click.group()
def pipeline() -> None:
    """Run pipelines on Spark, from topics to tables and topics."""


@pipeline.group("run", invoke_without_command=True, no_args_is_help=True)
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run the pipelines of this TOML file, all in one Spark.",
)
@click.pass_context
def run_group(context: click.Context, file: Path | None) -> None:
    r"""Run a pipeline until it is stopped; a restart continues where it ended.

    A TOML file runs several pipelines in one Spark. It has a table per pipeline with its options.

    \b
    bootstrap-servers = "127.0.0.1:9092"
    [activity]
    out = "/var/lib/moldau/activity"
    window = "30s"
    [logs]
    out = "/var/lib/moldau/logs"
    """
    if file is not None:
        if context.invoked_subcommand is not None:
            raise click.UsageError("name a pipeline, or a file that names some: not both")
        _run_file(file)


@pipeline.group("submit")
def submit_group() -> None:
    """Print the spark-submit command that runs a pipeline on a cluster."""


def place_options(command: Command) -> Command:
    """Give a command what names the folders of a pipeline."""
    for option in (
        click.option(
            "--desk", metavar="DIR",
            help="The folder of lock and status, if --out is not local.",
        ),
        click.option("--out", required=True, metavar="DIR", help="The folder of its tables."),
    ):  # fmt: skip
        command = option(command)
    return command


def frame_options(command: Command) -> Command:
    """Give a command what every pipeline can be told."""
    for option in (
        click.option(
            "--conf", "conf", multiple=True, metavar="KEY=VALUE",
            help="A Spark setting; repeatable.",
        ),
        click.option(
            "--group", metavar="NAME", help="Commit offsets to this group, for lag tools."
        ),
        click.option(
            "--metrics-port", type=click.IntRange(1, 65535), help="Serve /metrics on this port."
        ),
        click.option(
            "--batch-rows", type=click.IntRange(1), default=1_000_000, show_default=True,
            help="The most records in a batch.",
        ),
        click.option(
            "--table-format", type=click.Choice(TABLE_FORMATS), default=PARQUET, show_default=True,
            help="The format of the tables; Spark needs the library of Delta or Iceberg.",
        ),
        click.option("--once", is_flag=True, help="Exit when all records have been read."),
        click.option(
            "--trigger", type=Milliseconds(zero=True), default="1s", show_default=True,
            metavar="DURATION", help="How often a batch starts.",
        ),
        click.option(
            "--checkpoint", metavar="DIR", help="The folder of its checkpoint [in --out]."
        ),
        click.option("--master", metavar="URL", help="Where Spark runs [here, two tasks a core]."),
    ):  # fmt: skip
        command = option(command)
    return connection_options(place_options(command))


def _declared(declared: Pipeline, command: Command, name: str) -> click.Command:
    """Make the command of one pipeline, with the options it declares."""
    for option in reversed(declared.options):
        command = _click_option(option)(command)
    return click.command(name, help=declared.text)(frame_options(command))


def _click_option(option: Option) -> Callable[[Command], Command]:
    metavar = "DURATION" if option.kind is Kind.DURATION else None

    def check(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        """Refuse a value before Spark is started."""
        if option.check is not None and value is not None:
            try:
                option.check(value)
            except UserError as error:
                raise click.BadParameter(str(error), context, parameter) from None
        return value

    return click.option(
        f"--{option.name}",
        type=_type_of(option),
        default=option.default,
        show_default=option.default is not None,
        metavar=metavar,
        help=option.text,
        callback=check,
    )


def _type_of(option: Option) -> click.ParamType[Any]:
    if option.kind is Kind.DURATION:
        return Milliseconds(zero=option.may_be_zero)
    return _KINDS[option.kind]


def _run_command(declared: Pipeline) -> click.Command:
    def call(**given: Any) -> None:
        _run(declared, given)

    return _declared(declared, call, declared.name)


def _submit_command(declared: Pipeline) -> click.Command:
    def call(**given: Any) -> None:
        _submit(declared, given)

    program = click.option(
        "--program", default=str(Path(__file__)), metavar="PATH",
        help="The path of cli/pipeline.py where the driver runs [as here].",
    )  # fmt: skip
    image = click.option("--image", help="The container image, on Kubernetes.")
    python = click.option(
        "--python", default="python3", show_default=True, metavar="PATH",
        help="The Python on the machines of the cluster.",
    )  # fmt: skip
    return _declared(declared, program(image(python(call))), declared.name)


for _one in PIPELINES.values():
    run_group.add_command(_run_command(_one))
    submit_group.add_command(_submit_command(_one))


@pipeline.command()
@place_options
@output_option
def status(out: str, desk: str | None, output: str) -> None:
    """Show the progress of a pipeline, or how it ended."""
    from moldau.spark.pipelines.places import Places  # noqa: PLC0415
    from moldau.spark.pipelines.running.desk import read_status  # noqa: PLC0415

    report = status_report(read_status(Places.of(out, desk=desk).desk))
    show_report(report, output)
    if report.note is not None:
        click.echo(f"moldau: {safe(report.note)}", err=True)


@pipeline.command()
@place_options
def stop(out: str, desk: str | None) -> None:
    """Stop a pipeline after its running batch, and wait for it."""
    from moldau.spark.pipelines.places import Places  # noqa: PLC0415
    from moldau.spark.pipelines.running.desk import ask_to_stop, owner  # noqa: PLC0415

    folder = Places.of(out, desk=desk).desk
    process = ask_to_stop(folder)
    if process is None:
        click.echo("moldau: no pipeline runs here", err=True)
        return
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while owner(folder) == process:
        if time.monotonic() > deadline:
            raise UserError(
                f"process {process} is still running its batch; stop it again to end it"
                " without waiting for the batch"
            )
        time.sleep(_POLL_S)
    click.echo(f"moldau: the pipeline has ended (process {process})", err=True)


@pipeline.command()
@click.option("-t", "--topic", default="activity", show_default=True, help="The topic to send to.")
@click.option(
    "--rate", type=click.IntRange(1), default=1000, show_default=True, help="Events per second."
)
@click.option("-n", "--count", type=click.IntRange(1), help="Exit after this many events.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="The seed of the random events."
)
@click.option("--late", type=click.FloatRange(0, 1), default=0.01, help="The share of late events.")
@click.option(
    "--broken", type=click.FloatRange(0, 1), default=0.001, help="The share of malformed events."
)
@connection_options
def generate(**given: Any) -> None:
    """Send random page views and searches for the activity pipeline.

    It stops after --count events, or on SIGTERM or Ctrl-C; events already sent are still delivered.
    """
    from moldau.cli.pipelines.generating import Sending  # noqa: PLC0415
    from moldau.client.producer import Producer  # noqa: PLC0415
    from moldau.spark.pipelines.activity.generator import Crowd, Habits  # noqa: PLC0415

    hide_client_warnings()
    crowd = Crowd(given["seed"], Habits(late=given["late"], broken=given["broken"]))
    with Producer(**Connection.of(given).for_client(Producer)) as producer:
        sending = Sending(producer, given["topic"], crowd)
        sending.run(given["rate"], given["count"])
    click.echo(f"moldau: {sending.delivered_count:,} events sent", err=True)
    if sending.failure is not None:
        raise sending.failure


# Running


def _run(declared: Pipeline, given: dict[str, Any]) -> None:
    _require_spark()
    from moldau.spark.pipelines.running.frame import Run  # noqa: PLC0415

    with view() as show:
        Run(_order(declared, given), partial(show, declared.name)).run()


def _run_file(path: Path) -> None:
    _require_spark()
    from moldau.spark.pipelines.running.together import Together, shared_session  # noqa: PLC0415

    orders = {
        title: _order(PIPELINES[given[KIND]], given)
        for title, given in read_file(path, run_group.commands).items()
    }
    with view() as show:
        Together(orders, show, partial(shared_session, orders)).run()


def _require_spark() -> None:
    try:
        import_module("moldau.spark.pipelines.running.frame")
    except ImportError as missing:
        raise UserError(f"pipelines need Spark ({missing}): pip install 'moldau[spark]'") from None
    # Where Java does not answer, Py4J says so in a trace. It is raised as well, and told in a line.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Tell whether a record of the root logger, to which Py4J speaks at times, is another's."""
    return Path(record.pathname).parent.name != "py4j"


def _order(declared: Pipeline, given: dict[str, Any]) -> Order:
    from moldau.spark.pipelines.places import Places  # noqa: PLC0415
    from moldau.spark.pipelines.running.frame import Order  # noqa: PLC0415

    values = _values(declared, given)
    if (note := skew_note(values)) is not None:
        click.echo(f"moldau: {declared.name}: {note}", err=True)
    return Order(
        declared,
        Places.of(given["out"], given["checkpoint"], given["desk"]),
        values,
        _connection(given),
        given["master"],
        given["trigger"],
        given["once"],
        given["batch_rows"],
        given["group"],
        given["metrics_port"],
        _settings(given["conf"]),
        given["table_format"],
    )


def _values(declared: Pipeline, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a pipeline's options; UserError for one that would have no effect."""
    values = {one.name: given[one.name.replace("-", "_")] for one in declared.options}
    for one in declared.options:
        if one.needs is not None and values[one.name] is not None and values[one.needs] is None:
            raise UserError(f"--{one.name} has no effect without --{one.needs}: give both")
    return values


def skew_note(values: Mapping[str, Any]) -> str | None:
    """Say what follows if sources may be further ahead than behind."""
    skew_ms, delay_ms = values.get("skew"), values.get("delay")
    if skew_ms is None or delay_ms is None or skew_ms <= delay_ms:
        return None
    skew, delay = duration_text(skew_ms), duration_text(delay_ms)
    return (
        f"--skew {skew} is more than --delay {delay}: what comes with a time ahead of the clock"
        " waits until the clock has reached its window"
    )


def _connection(given: dict[str, Any]) -> dict[str, str]:
    """Return how brokers are reached, as options of Spark's."""
    from moldau.engine.settings import DEFAULT_SERVERS  # noqa: PLC0415

    settings = {SERVERS: DEFAULT_SERVERS, **_client_settings(given)}
    return {f"kafka.{name}": value for name, value in settings.items()}


def _client_settings(given: dict[str, Any]) -> dict[str, str]:
    """Return what was said of the client: typed, in files, profiles or the environment."""
    from moldau.client.consumer import AsyncConsumer  # noqa: PLC0415

    settings = Connection.of(given).for_client(AsyncConsumer)
    del settings["client.id"], settings["bootstrap.timeout.ms"]  # those of a short command
    return {name: str(value) for name, value in settings.items()}


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--conf {text}: expected KEY=VALUE")
        found[name] = value
    return found


def _submit(declared: Pipeline, given: dict[str, Any]) -> None:
    _values(declared, given)  # which the driver would refuse
    from moldau.spark.pipelines.places import Places  # noqa: PLC0415
    from moldau.spark.pipelines.submitting import submit_command  # noqa: PLC0415

    Places.of(given["out"], given["checkpoint"], given["desk"])  # the driver would refuse them too
    words = ["run", declared.name]
    # The driver has neither the environment nor the profiles and files of this machine.
    connection = {"bootstrap_servers", "settings", "command_config", "profile"}
    left_out = {"master", "conf", "image", "python", "program", *connection}
    for parameter in click.get_current_context().command.params:
        name, value = parameter.name or "", given[parameter.name or ""]
        source = click.get_current_context().get_parameter_source(name)
        if name in left_out or source is click.core.ParameterSource.DEFAULT:
            continue
        for one in value if isinstance(value, tuple) else (value,):
            words.append(parameter.opts[-1])
            words += [] if value is True else [_typed(parameter, one)]
    settings = _client_settings(given)
    if (servers := settings.pop(SERVERS, None)) is not None:
        words += ["--bootstrap-servers", servers]
    words += [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    line = submit_command(
        given["master"] or "local[*]",
        given["program"],
        words,
        python=given["python"],
        image=given["image"],
        settings=_settings(given["conf"]),
    )
    click.echo(line)


def _typed(parameter: click.Parameter, value: Any) -> str:
    return duration_text(value) if isinstance(parameter.type, Milliseconds) else str(value)


if __name__ == "__main__":
    from moldau.cli.main import main

    sys.argv[1:1] = ["pipeline"]
    main()
