"""`kafka-configs`: shows and changes the configs of topics, brokers, groups and client metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import as_java_says
from moldau.cli.kafka.options import OptionError, OptionParser, Options, flag, text
from moldau.cli.kafka.running import (
    BOOTSTRAP_CONTROLLER,
    CommandFailed,
    cluster_options,
    names_cluster,
    parse,
    read_properties,
    with_admin,
)
from moldau.cli.operations.configs import ALL_BROKERS, own_entries, resource_of

TYPES: Final = ("topics", "brokers", "broker-loggers", "client-metrics", "groups")
ABSENT_TYPES: Final = ("users", "clients", "ips")
"""What has quotas and credentials, which do not exist here yet."""
SHORT: Final = {
    "topic": "topics", "broker": "brokers", "broker-logger": "broker-loggers",
    "client-metrics": "client-metrics", "group": "groups", "user": "users", "client": "clients",
    "ip": "ips",
}  # fmt: skip
DEFAULTS: Final = {
    "broker-defaults": "brokers", "user-defaults": "users", "client-defaults": "clients",
    "ip-defaults": "ips",
}  # fmt: skip
OUTSIDE_BRACKETS: Final = r"(?=[^\]]*(?:\[|$))"
NAME: Final = re.compile(r"[$a-zA-Z0-9._-]*")
SOURCES: Final = {
    "TOPIC": "DYNAMIC_TOPIC_CONFIG",
    "CLIENT_METRICS": "DYNAMIC_CLIENT_METRICS_CONFIG",
    "GROUP": "DYNAMIC_GROUP_CONFIG",
    "UNKNOWN": "UNKNOWN",
}
"""Names of sources that are not simply followed by `_CONFIG`."""

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        BOOTSTRAP_CONTROLLER,
        flag("alter", "Change configs."),
        flag("describe", "Show configs that were set."),
        flag("all", "With --describe, show those that were not set too."),
        text("entity-type", "", f"What has the configs: {', '.join(TYPES)}."),
        text("entity-name", "", "Its name: of a topic or group, the id of a broker."),
        flag("entity-default", "The defaults of all brokers."),
        text("add-config", "", "Configs to set: k1=v1,k2=[v1,v2],k3=v3."),
        text("add-config-file", "", "A file with configs to set."),
        text("delete-config", "", "Configs to unset: k1,k2."),
        text("topic", "", "A topic."),
        text("broker", "", "A broker, by its id."),
        text("broker-logger", "", "The loggers of a broker, by its id."),
        text("client-metrics", "", "A subscription to metrics of clients."),
        text("group", "", "A group."),
        text("user", "", "A user; not available yet."),
        text("client", "", "A client; not available yet."),
        text("ip", "", "An address; not available yet."),
        *(flag(name, f"The defaults of all {kind}.") for name, kind in DEFAULTS.items()),
        flag("force", "Taken and not heeded: no question is asked."),
    ]
)


class Entity(NamedTuple):
    """What is asked for: a kind of thing, and one of them or all."""

    kind: str
    name: str | None

    def resource(self, name: str) -> client.ConfigResource:
        """Return one of this kind."""
        kind = self.kind if self.kind == "client-metrics" else self.singular
        return resource_of(kind, name)

    @property
    def singular(self) -> str:
        """Return the kind as Kafka's lines name one of it."""
        return self.kind[:-1]


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    about = (
        "This tool helps to manipulate and describe entity config for a topic, client, user,"
        " broker, ip, client-metrics or group"
    )
    options = parse(PARSER, arguments, about, console)
    entity = _entity(options)
    changes = _changes(options) if options.has("alter") else {}

    async def work(admin: client.AsyncAdmin) -> None:
        if options.has("alter"):
            await _alter(admin, entity, changes, console)
        else:
            await _describe(admin, entity, show_all=options.has("all"), console=console)

    try:
        return with_admin(options, console, work)
    except (CommandFailed, OptionError):
        raise
    except MoldauError as error:
        console.warn(f"Error while executing config command with args '{' '.join(arguments)}'")
        console.warn(as_java_says(error))
        return 1


def _entity(options: Options) -> Entity:
    if options.has("alter") == options.has("describe"):
        raise options.error("Command must include exactly one action: --describe, --alter")
    options.exclude("describe", "add-config", "delete-config")
    if not names_cluster(options):
        raise CommandFailed(
            "Either --bootstrap-server or --bootstrap-controller must be specified."
        )
    kinds = [*options.values("entity-type")]
    short = [name for name in (*SHORT, *DEFAULTS) if options.has(name)]
    kinds += [SHORT.get(name) or DEFAULTS[name] for name in short]
    _check_kinds(kinds)
    if short and any(map(options.has, ("entity-type", "entity-name", "entity-default"))):
        raise CommandFailed(
            "--entity-{type,name,default} should not be used in conjunction with specific entity"
            " flags"
        )
    entity = Entity(kinds[0], _name(options, short))
    _check_name(entity, options)
    return entity


def _check_kinds(kinds: Sequence[str]) -> None:
    if not kinds:
        raise CommandFailed("At least one entity type must be specified")
    for kind in kinds:
        if kind not in TYPES and kind not in ABSENT_TYPES:
            allowed = ", ".join((*TYPES, *ABSENT_TYPES))
            raise CommandFailed(
                f"Invalid entity type {kind}, the entity type must be one of {allowed} with a"
                " --bootstrap-server or --bootstrap-controller argument"
            )
    twice = sorted({kind for kind in kinds if kinds.count(kind) > 1})
    if twice:
        raise CommandFailed(f"Duplicate entity type(s) specified: {','.join(twice)}")
    if len(kinds) > 1 and set(kinds) != {"users", "clients"}:
        raise CommandFailed("Only 'users' and 'clients' entity types may be specified together")
    if kinds[0] in ABSENT_TYPES:
        raise CommandFailed(f"Moldau does not have this yet: quotas and credentials of {kinds[0]}")


def _name(options: Options, short: Sequence[str]) -> str | None:
    if short:
        return ALL_BROKERS if short[0] in DEFAULTS else options.text(short[0])
    return ALL_BROKERS if options.has("entity-default") else options.value("entity-name")


def _check_name(entity: Entity, options: Options) -> None:
    kind, name = entity
    if kind in ("brokers", "broker-loggers") and name and not name.lstrip("-").isdecimal():
        raise CommandFailed(
            f"The entity name for {kind} must be a valid integer broker id, but it is: {name}"
        )
    if options.has("describe"):
        if name == ALL_BROKERS and kind != "brokers":
            raise CommandFailed(f"--entity-default must not be specified with --describe of {kind}")
        if kind == "broker-loggers" and not name:
            raise CommandFailed(f"An entity name must be specified with --describe of {kind}")
    elif kind == "brokers" and name is None:
        raise CommandFailed(
            "An entity-name or default entity must be specified with --alter of users, clients,"
            " brokers or ips"
        )
    elif kind != "brokers" and not name:
        raise CommandFailed(f"An entity name must be specified with --alter of {kind}")


def _changes(options: Options) -> dict[str, client.ConfigChange]:
    if options.has("add-config") and options.has("add-config-file"):
        raise CommandFailed("Only one of --add-config or --add-config-file must be specified")
    if not any(map(options.has, ("add-config", "add-config-file", "delete-config"))):
        raise CommandFailed(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified"
            " with --alter"
        )
    unset = [name.strip() for one in options.values("delete-config") for name in one.split(",")]
    changes: dict[str, client.ConfigChange] = dict.fromkeys(unset)
    if (file := options.value("add-config-file")) is not None:
        changes |= read_properties(file)
    if (given := options.value("add-config")) is not None:
        changes |= _added(given)
    for name in changes:
        if not NAME.fullmatch(name):
            raise CommandFailed(f"Invalid character found for config key: {name}")
    return changes


def _added(given: str) -> dict[str, str]:
    pairs = [
        re.split(rf"\s*={OUTSIDE_BRACKETS}\s*", one)
        for one in re.split(f",{OUTSIDE_BRACKETS}", given)
    ]
    if any(len(pair) != 2 for pair in pairs):
        raise CommandFailed(
            "requirement failed: Invalid entity config: all configs to be added must be in the"
            ' format "key=val" or  "key=[val1,val2]" to group values which contain commas.'
        )
    return {name.strip(): value.replace("[", "").replace("]", "").strip() for name, value in pairs}


async def _alter(
    admin: client.AsyncAdmin,
    entity: Entity,
    changes: dict[str, client.ConfigChange],
    console: Console,
) -> None:
    await admin.alter_config(entity.resource(entity.name or ALL_BROKERS), changes)
    if entity.name:
        console.say(f"Completed updating config for {entity.singular} {entity.name}.")
    else:
        console.say(f"Completed updating default config for {entity.kind} in the cluster.")


# Describing


async def _describe(
    admin: client.AsyncAdmin, entity: Entity, *, show_all: bool, console: Console
) -> None:
    known, is_all = await _names(admin, entity)
    if not show_all and is_all and entity.name and entity.name not in known:
        console.say(
            f"The {entity.singular} '{entity.name}' doesn't exist and doesn't have dynamic config."
        )
        return
    for name in known if entity.name is None else [entity.name]:
        if name == ALL_BROKERS:
            console.say(f"Default configs for {entity.kind} in the cluster are:")
        else:
            console.say(
                f"{'All' if show_all else 'Dynamic'} configs for {entity.singular} {name} are:"
            )
        resource = entity.resource(name)
        configs = await admin.describe_config(resource, include_synonyms=True)
        shown = configs.values() if show_all else own_entries(resource, configs)
        console.say_all(map(_line, sorted(shown, key=lambda entry: entry.name)))


async def _names(admin: client.AsyncAdmin, entity: Entity) -> tuple[list[str], bool]:
    """Return what there is of a kind, and has or may have configs; and whether that is all of it.

    Brokers before 4.1 do not tell of groups that have configs and nothing else (KIP-1142).
    """
    if entity.kind == "topics":
        return list(await admin.list_topics(include_internal=True)), True
    if entity.kind in ("brokers", "broker-loggers"):
        brokers = (await admin.describe_cluster()).brokers
        return [*(str(broker.broker_id) for broker in brokers), ALL_BROKERS], True
    wanted = entity.resource("").type
    names: set[str] = set()
    is_all = True
    try:
        names |= {one.name for one in await admin.list_config_resources([wanted])}
    except client.UnsupportedVersion:
        is_all = False
    if entity.kind == "groups":
        names |= {one.group_id for one in await admin.list_groups()}
    return sorted(names), is_all


def _line(entry: client.ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{_source(one.source.name)}:{one.name}={_value(one.value)}" for one in entry.synonyms
    )
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _source(name: str) -> str:
    return SOURCES.get(name) or f"{name}_CONFIG"


def _value(value: str | None) -> str:
    return "null" if value is None else value
