"""A cluster in the foreground, from the line that says where it is to its last broker's end."""

from __future__ import annotations

from collections.abc import Sequence

import click

from moldau.cli.clusters.layout import ClusterFolder
from moldau.cli.clusters.processes import StartedBroker
from moldau.cli.clusters.starting import Say
from moldau.cli.clusters.stop_signals import StopSignals
from moldau.cli.clusters.stopping import stop_until_signal
from moldau.cli.clusters.watching import watch_over


def run_in_foreground(
    cluster: ClusterFolder, started: Sequence[StartedBroker], signals: StopSignals, say: Say
) -> bool:
    """Run a cluster until a signal comes or no broker is left; return whether none has died."""
    children = {one.broker: one.child for one in started}
    running = {one.broker: one.process for one in started}
    try:
        click.echo(f"BOOTSTRAP={cluster.bootstrap}")
        say(f"Ctrl-C stops the brokers; what they hold stays in {cluster.path}")
        is_in_order = watch_over(cluster.brokers, children, running, signals, say)
    except BaseException:
        stop_until_signal(cluster.brokers, running, signals)
        raise
    if not signals.count:
        say("no broker runs any more")
        return is_in_order
    say("stopping the brokers; a second signal kills them")
    stop_until_signal(cluster.brokers, running, signals)
    return True
