"""`moldau doctor`: checks this machine for a broker with the given settings; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

import click

from moldau.cli.broker_options import broker_options, read_settings
from moldau.cli.doctor.findings import Finding, Result
from moldau.cli.doctor.folders import check_folders
from moldau.cli.doctor.listening import check_network
from moldau.cli.doctor.machine import Machine
from moldau.cli.doctor.plan import BrokerPlan, plan_of
from moldau.cli.doctor.software import check_software
from moldau.cli.doctor.system import check_system
from moldau.cli.doctor.this_machine import ThisMachine
from moldau.cli.frame.output import output_option, show
from moldau.cli.frame.report import BAD, DOUBTFUL, GOOD, Column, Report, listing

UNFIT = 1
"""The status of a machine with a problem."""

STYLES: Final = {Result.OK: GOOD, Result.ADVICE: DOUBTFUL, Result.PROBLEM: BAD}
COLUMNS: Final = (
    Column("check", "CHECK"),
    Column("result", "RESULT", style=STYLES.get),
    Column("found", "FOUND"),
    Column("advice", "WHAT TO DO"),
)


@click.command()
@broker_options
@output_option
def doctor(output: str, **options: Any) -> None:
    """Check whether this machine is ready for a broker, and say what to change.

    With the options and the environment of `moldau serve`, it checks what that broker needs. It
    changes nothing. The status is 1 if there is a problem; advice does not count.
    """
    report = report_of(list(examine(ThisMachine(), plan_of(read_settings(**options)))))
    show(report, output)
    if report.status:
        raise click.exceptions.Exit(report.status)


def examine(machine: Machine, plan: BrokerPlan) -> Iterator[Finding]:
    """Make all checks."""
    yield from check_software(machine, is_on_zookeeper=plan.is_on_zookeeper)
    checks: list[Callable[[Machine, BrokerPlan], Iterator[Finding]]] = [
        check_system, check_folders, check_network,
    ]  # fmt: skip
    for check in checks:
        yield from check(machine, plan)


def report_of(findings: list[Finding]) -> Report:
    """Make the report, and the status that scripts read."""
    is_unfit = any(one.result is Result.PROBLEM for one in findings)
    return listing(COLUMNS, [asdict(one) for one in findings], status=UNFIT if is_unfit else 0)
