"""How a client takes its settings: keywords with Kafka's names, defaults and meaning.

A client's constructor lists its settings as keyword arguments, for editors and type checkers.
`accepts_kafka_names` also accepts the dotted names of a Kafka properties file
(`**{"linger.ms": 5}`). A value may be text under either name, as in a properties file or an
environment variable: "false" is never true.

    @accepts_kafka_names
    def __init__(self, bootstrap_servers: Servers = DEFAULT_SERVERS, *, linger_ms: float = 5, ...):
        values = locals()
        self._connection = pick(ConnectionSettings, values)
        self._settings = pick(ProducerSettings, values)

The values are defined in `consumer_settings`, `producer_settings` and, for connections, in
`engine.settings`.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar, cast

from moldau.base.errors import ConfigError
from moldau.engine.arguments import why_not_sent
from moldau.engine.errors import InvalidSetting
from moldau.engine.settings import S, pick

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

IGNORED: Mapping[str, str] = {
    "auto.include.jmx.reporter": "there is no JMX in Python",
    "metric.reporters": "metrics are read with metrics()",
    "metrics.num.samples": "metrics are read with metrics()",
    "metrics.recording.level": "metrics are read with metrics()",
    "metrics.sample.window.ms": "metrics are read with metrics()",
    "enable.metrics.push": "the client pushes no metrics to brokers",
    "config.providers": "values are taken as they are",
    "security.providers": "it names Java classes",
    "api.version.request": "versions are always agreed on",
    "api.version.auto.timeout.ms": "versions are always agreed on",
    "broker.version.fallback": "versions are always agreed on",
    "log.connection.close": "Python's logging decides what is shown",
}
"""Settings of other clients that have nothing to set here; one log line says so."""

REFUSED: Mapping[str, str] = {
    "api.version": "versions are agreed on with each broker",
}
"""Settings that would change what the user gets; ignoring them would mislead."""

UNSUPPORTED_FAMILIES = ("ssl.", "sasl.")


def name_of(client_id: str) -> str:
    """Return what brokers call a client: one without a name by its program and its process."""
    if client_id:
        return client_id
    called = sys.argv[0] if sys.argv else ""
    program = called.rpartition(os.sep)[2].removesuffix(".py")
    named = re.sub(r"[^a-zA-Z0-9._-]+", "-", program).strip("-") or "python"
    return f"moldau-{named}-{os.getpid()}"


def read_texts(settings: type[S], values: Mapping[str, Any]) -> S:
    """Make settings as `pick` does, where values may be texts: each is read as what it is."""
    kinds = settings.__annotations__
    read = {name: _read(name, value, kinds.get(name)) for name, value in values.items()}
    return pick(settings, read)


def accepts_kafka_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let a constructor be called with Kafka's dotted names for its keyword arguments.

    A name it does not have is refused with the nearest one that it has. To a type checker the
    signature stays as it is written.
    """

    @functools.cache
    def parameters() -> Mapping[str, inspect.Parameter]:  # read late: not all who import also call
        return inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*arguments: P.args, **settings: P.kwargs) -> R:
        if any(isinstance(one, Mapping) for one in arguments[1:]):
            kind = type(arguments[0]).__name__
            raise InvalidSetting(
                f"settings are keyword arguments: with a dict, write {kind}(**settings)"
            )
        try:
            return function(*arguments, **cast("Any", _translated(settings, parameters())))
        except ConfigError as error:
            if isinstance(error, InvalidSetting):
                raise
            raise InvalidSetting(str(error)) from error.__cause__

    return call


def _translated(
    settings: Mapping[str, Any], parameters: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    translated: dict[str, Any] = {}
    for name, value in settings.items():
        own = name.replace(".", "_")
        if own in parameters and own != "self":
            if own in translated:
                raise ConfigError(f"{name} is given twice")
            translated[own] = _read(name, value, parameters[own].annotation)
        elif (reason := IGNORED.get(name.replace("_", "."))) is not None:
            logger.info("%s is ignored: %s", name, reason)
        else:
            raise ConfigError(_refusal(name, parameters))
    return translated


def _refusal(name: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only who is refused pays for these

    from moldau.base.removed_settings import removal  # noqa: PLC0415
    from moldau.client.removed_settings import REMOVED  # noqa: PLC0415

    dotted = name.replace("_", ".")
    if (reason := REFUSED.get(dotted)) is not None:
        return f"{name} is not taken: {reason}"
    if (removed := REMOVED.get(dotted)) is not None:
        return removal(name, removed)
    if dotted.startswith(UNSUPPORTED_FAMILIES):
        return f"{name} is not supported yet: connections are plaintext"
    own = [known for known in parameters if known != "self" and known[0] != "_"]
    near = get_close_matches(name.replace(".", "_"), own, 1)
    if not near:
        return f"there is no setting {name}"
    meant = near[0].replace("_", ".") if "." in name else near[0]
    return f"there is no setting {name}: is {meant} meant?"


def _read(name: str, value: Any, annotation: object) -> Any:
    """Read a value as what the setting is, from text too; ConfigError if it is something else.

    Settings that are none of the plain kinds are checked by whoever takes them.
    """
    kind, _, rest = annotation.partition(" | ") if isinstance(annotation, str) else ("", "", "")
    if kind not in _KINDS or rest not in ("", "None") or (rest and value is None):
        return value
    types, from_text, meant = _KINDS[kind]
    if isinstance(value, str) and from_text is not None:
        try:
            return from_text(value.strip().lower())
        except (KeyError, ValueError):
            raise ConfigError(f"{name}={value!r} is not {meant}") from None
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"{name}={value!r} is not {meant}")
    if isinstance(value, str) and (problem := why_not_sent(value)):
        raise ConfigError(f"{name} {problem}")
    return value


_KINDS: Final[Mapping[str, tuple[tuple[type, ...], Callable[[str], Any] | None, str]]] = {
    "bool": ((bool,), {"true": True, "false": False}.__getitem__, "true or false"),
    "int": ((int,), int, "a whole number"),
    "float": ((int, float), float, "a number"),
    "str": ((str,), None, "text"),
}
"""By how a constructor declares a setting: what is taken as it is, how text is read, what to say.

Declarations are text that nobody evaluates: resolving the types of a constructor would import what
it only mentions."""
