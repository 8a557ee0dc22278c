"""`--version`: which Moldau this is, and in which form."""

from __future__ import annotations

import click

from moldau import __version__
from moldau.base.form import is_compiled


def show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print it and end, if it was asked for."""
    if asked and not context.resilient_parsing:
        click.echo(f"moldau {__version__}{' (compiled)' if is_compiled() else ''}")
        context.exit()
