"""Where a broker's configs are set: options, environment, file, and the defaults of the command.

Each value keeps its place, so that a complaint can name the line or the variable. Precedence is
option, environment, file, default. Some configs are several names for one thing, such as
`log.retention.ms`, `.minutes` and `.hours`; whichever source has any of them silences the others of
the sources below it, so that an option is never beaten by another spelling in the file.

Environment variables follow Apache's images: KAFKA_ in front, `_` for `.`, `__` for `_`, `___` for
`-`. Values may refer to secrets kept elsewhere, as `${env:NAME}`, `${file:PATH:KEY}` and
`${dir:PATH:FILE}`, under these names or the ones that `config.providers` gives them (KIP-421).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from moldau.base.errors import ConfigError
from moldau.base.properties import parse_entries, parse_properties
from moldau.server.configuration.definition import printable

PREFIX: Final = "KAFKA_"

NOT_CONFIGS: Final = re.compile(
    r"VERSION|HOME|DEBUG|OPTS|\w+_OPTS|JMX_\w+|LOG4J_\w+|TOOLS_LOG4J_\w+|GC_LOG_ENABLED"
    r"|PORT|PORT_\d+_\w+|SERVICE_\w+"
)
"""Variables that are not meant for the broker: those of Kafka's own scripts, and those that
Kubernetes gives every container beside a service called kafka."""

SYNONYMS: Final = (
    ("node.id", "broker.id"),
    ("log.dirs", "log.dir"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
"""Names for one thing, the stronger ones first."""

ReadFile = Callable[[str], str]
"""Returns the text of a file; OSError says why it cannot be read."""

_REFERENCE = re.compile(r"\$\{([^}:]+):(?:([^}:]*):)?([^}]*)\}")
_PROVIDER_CLASSES: Final = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "dir",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One value, and the place where somebody set it."""

    key: str
    value: str
    place: str


Settings = dict[str, Setting]


def gather(
    text: str | None,
    overrides: Mapping[str, str],
    environ: Mapping[str, str],
    defaults: Mapping[str, str],
    read_file: ReadFile | None,
) -> Settings:
    """Return what is set, by key, with references resolved."""
    levels = [
        {key: Setting(key, value, "an option") for key, value in overrides.items()},
        {setting.key: setting for setting in _from_environment(environ)},
        _from_file(text),
        {key: Setting(key, value, "a default") for key, value in defaults.items()},
    ]
    found = _merged(levels)
    providers = _Providers(found, environ, read_file)
    return {key: providers.resolved(setting) for key, setting in found.items()}


def key_of_variable(name: str) -> str:
    """Turn a variable's name, without its prefix, into the key it stands for."""
    letters = {"_": ".", "__": "_", "___": "-"}
    return re.sub(r"_{1,3}", lambda run: letters[run.group()], name.lower())


def _from_environment(environ: Mapping[str, str]) -> Iterator[Setting]:
    for variable, value in environ.items():
        name = variable.removeprefix(PREFIX)
        if name and name != variable and not NOT_CONFIGS.fullmatch(name):
            yield Setting(key_of_variable(name), value, f"environment variable {variable}")


def _from_file(text: str | None) -> Settings:
    try:
        return {
            entry.key: Setting(entry.key, entry.value, f"line {entry.line} of the file")
            for entry in parse_entries(text or "")
        }
    except ValueError as error:
        raise ConfigError(f"the file is malformed: {error}") from error


def _merged(levels: list[Settings]) -> Settings:
    found: Settings = {}
    for level in levels:
        silenced = {
            name for group in SYNONYMS if any(name in found for name in group) for name in group
        }
        found |= {
            key: setting
            for key, setting in level.items()
            if key not in found and key not in silenced
        }
    return found


class _Providers:
    """Looks up what a value refers to."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], read_file: ReadFile | None
    ) -> None:
        self._environ = environ
        self._read_file = read_file
        self._kinds = {kind: kind for kind in _PROVIDER_CLASSES.values()}
        for key, setting in settings.items():
            if key.startswith("config.providers.") and key.endswith(".class"):
                name = key.removeprefix("config.providers.").removesuffix(".class")
                kind = _PROVIDER_CLASSES.get(setting.value.strip().rpartition(".")[2])
                if kind is None:
                    raise ConfigError(
                        printable(f"{key}={setting.value}: only Kafka's own providers are known: ")
                        + f"{', '.join(_PROVIDER_CLASSES)} (set by {setting.place})"
                    )
                self._kinds[name] = kind

    def resolved(self, setting: Setting) -> Setting:
        def look_up(reference: re.Match[str]) -> str:
            name, path, key = reference.groups()
            if name not in self._kinds:
                return reference.group()
            try:
                return self._look_up(self._kinds[name], path or "", key)
            except (OSError, ValueError, KeyError) as error:
                detail = f"{error.args[0]} is not there" if type(error) is KeyError else error
                raise ConfigError(
                    printable(f"{setting.key}: cannot resolve {reference.group()}: {detail}")
                    + f" (set by {setting.place})"
                ) from error

        return replace(setting, value=_REFERENCE.sub(look_up, setting.value))

    def _look_up(self, kind: str, path: str, key: str) -> str:
        if kind == "env":
            return self._environ[key]
        if self._read_file is None:
            raise OSError("files cannot be read here")
        if kind == "dir":
            return self._read_file(f"{path}/{key}")
        return parse_properties(self._read_file(path))[key]
