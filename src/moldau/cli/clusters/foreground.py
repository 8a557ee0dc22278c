"""A cluster in the foreground, from the line that says where it is to its last broker's end."""

from __future__ import annotations

from collections.abc import Sequence

import click

from moldau.cli.clusters.layout import ClusterFolder
from moldau.cli.clusters.processes import StartedMember
from moldau.cli.clusters.starting import Say
from moldau.cli.clusters.stop_signals import StopSignals
from moldau.cli.clusters.stopping import stop_until_signal
from moldau.cli.clusters.watching import watch_over


def run_in_foreground(
    cluster: ClusterFolder, started: Sequence[StartedMember], signals: StopSignals, say: Say
) -> bool:
    """Run a cluster until a signal comes or no broker is left; return whether none has died."""
    children = {one.member: one.child for one in started}
    running = {one.member: one.process for one in started}
    try:
        tell_addresses(cluster)
        say(f"Ctrl-C stops the brokers; their data stays in {cluster.path}")
        is_in_order = watch_over(cluster.members, children, running, signals, say)
    except BaseException:
        stop_until_signal(cluster.members, running, signals)
        raise
    if signals.count:
        say("stopping the brokers; a second signal kills them")
        is_in_order = True
    else:
        say("no broker is running any more")
    # Also if the last broker has ended by itself: a ZooKeeper would be left.
    stop_until_signal(cluster.members, running, signals)
    return is_in_order


def tell_addresses(cluster: ClusterFolder) -> None:
    """Print where the cluster is."""
    if cluster.zookeeper_connect is not None:
        click.echo(f"ZooKeeper at {cluster.zookeeper_connect}")
    click.echo(f"BOOTSTRAP={cluster.bootstrap}")
