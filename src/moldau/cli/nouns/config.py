"""`moldau config`: reading and changing configs of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from moldau.base.errors import UserError
from moldau.cli.frame import client
from moldau.cli.frame.arguments import config_texts, parse_changes
from moldau.cli.frame.change import Change, nothing_done, outcome_report
from moldau.cli.frame.completion import complete_groups, complete_topics
from moldau.cli.frame.report import Column, Report, listing
from moldau.cli.frame.session import Session, asking, changing
from moldau.cli.operations.configs import ALL_BROKERS, resource_of

KINDS = ("topic", "broker", "group", "broker-logger", "client-metrics")
BROKER_DEFAULTS = "default"
"""The name for the defaults of all brokers."""

COLUMNS = (
    Column("config", "CONFIG"),
    Column("value", "VALUE"),
    Column("source", "SOURCE"),
    Column("read_only", "READ ONLY", wide=True),
    Column("type", "TYPE", wide=True),
)


def _complete_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    match context.params.get("kind"):
        case "topic":
            return complete_topics(context, parameter, incomplete)
        case "group":
            return complete_groups(context, parameter, incomplete)
        case _:
            return []


kind_argument = click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
name_argument = click.argument("name", shell_complete=_complete_names)


@click.group()
def config() -> None:
    """Configs of topics, brokers and groups: get, set, delete.

    KIND is topic, broker, group, broker-logger or client-metrics. A broker is named by its id;
    `default` means all brokers.
    """


def named_resource(kind: str, name: str) -> client.ConfigResource:
    """Return the resource that a command line names."""
    if kind in ("broker", "broker-logger") and not name.isdecimal():
        if kind == "broker" and name == BROKER_DEFAULTS:
            return resource_of(kind, ALL_BROKERS)
        raise UserError(f"{name!r} is not a broker: expected an id or {BROKER_DEFAULTS}")
    return resource_of(kind, name)


async def configs_report(
    admin: client.AsyncAdmin,
    resource: client.ConfigResource,
    names: Sequence[str],
    *,
    everything: bool,
) -> Report:
    """Report the configs that were named, those somebody has set, or all."""
    found = await admin.describe_config(resource, names=names or None)
    if missing := [name for name in names if name not in found]:
        raise UserError(f"there is no config {', '.join(missing)}")
    rows = [
        _row(entry)
        for name, entry in sorted(found.items())
        if names or everything or not entry.is_default
    ]
    return listing(COLUMNS, rows)


def _row(entry: client.ConfigEntry) -> dict[str, Any]:
    return {
        "config": entry.name,
        "value": "(sensitive)" if entry.is_sensitive else entry.value,
        "source": entry.source.name.lower().replace("_", "-"),
        "read_only": entry.is_read_only,
        "type": entry.type.name.lower(),
    }


@config.command()
@kind_argument
@name_argument
@click.argument("keys", nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Show defaults too.")
@asking
def get(session: Session, kind: str, name: str, keys: tuple[str, ...], everything: bool) -> None:
    """Show configs of a topic, broker, ...: those that were changed, those named, or all."""
    resource = named_resource(kind, name)
    session.show(lambda admin: configs_report(admin, resource, keys, everything=everything))


@config.command("set")
@kind_argument
@name_argument
@click.argument("changes", nargs=-1, required=True, metavar="KEY=VALUE...")
@changing
def set_(session: Session, change: Change, kind: str, name: str, changes: tuple[str, ...]) -> None:
    """Set configs; KEY+=VALUE and KEY-=VALUE add to lists and remove from them."""
    _alter(session, change, (kind, name), parse_changes(changes))


@config.command()
@kind_argument
@name_argument
@click.argument("keys", nargs=-1, required=True)
@changing
def delete(session: Session, change: Change, kind: str, name: str, keys: tuple[str, ...]) -> None:
    """Reset configs to their defaults."""
    _alter(session, change, (kind, name), parse_changes((), keys))


def _alter(
    session: Session,
    change: Change,
    named: tuple[str, str],
    changes: dict[str, client.ConfigChange],
) -> None:
    resource, title = named_resource(*named), " ".join(named)

    async def work(admin: client.AsyncAdmin) -> Report:
        change.confirm(f"change {title} to {config_texts(changes)}")
        await admin.alter_config(resource, changes, validate_only=change.dry_run)
        rows = {
            key: {"config": key, "change": config_texts({key: one})} for key, one in changes.items()
        }
        columns = (Column("config", "CONFIG"), Column("change", "CHANGE"))
        word = "could be changed" if change.dry_run else "changed"
        return outcome_report(columns, rows, nothing_done(changes), word)

    session.show(work)
