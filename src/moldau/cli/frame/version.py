"""`--version`: which Moldau this is, and in which form.

The wheel of `make wheel` has machine code for some modules (ADR 0010). Both forms do the same; who
looks for the cause of anything wants to know which of them ran.
"""

from __future__ import annotations

from importlib.util import find_spec

import click

from moldau import __version__

_ONE_OF_THEM = "moldau.transport.readiness"


def is_compiled() -> bool:
    """Tell the form, by one of the modules that are compiled together or not at all."""
    spec = find_spec(_ONE_OF_THEM)
    return spec is not None and not str(spec.origin).endswith(".py")


def show_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print it and end, if it was asked for."""
    if asked and not context.resilient_parsing:
        click.echo(f"moldau {__version__}{' (compiled)' if is_compiled() else ''}")
        context.exit()
