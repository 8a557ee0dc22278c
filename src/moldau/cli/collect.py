"""`moldau collect`: log files and measurements of this machine, sent to topics."""

from __future__ import annotations

import click

from moldau.cli.collectors.files import files
from moldau.cli.collectors.metrics import metrics


@click.group()
def collect() -> None:
    """Collect log files and measurements of this machine."""


collect.add_command(files)
collect.add_command(metrics)
