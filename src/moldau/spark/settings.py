"""What both halves of the Spark connector make of options: names, plain values, client settings.

Options come from Spark as text under names whose case does not matter. Names, and which of them are
refused, are those of Spark's own Kafka connector, so that a job moves by changing one word. Options
that begin with `kafka.` are settings of the client, under the names that Kafka's Java client has
for them; whatever that client knows and ours has no use for is passed over with one log line, or
refused where leaving it out would change what the user gets.

Owns no option of the source or the sink: they name theirs to `check_names`. Makes no client.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeVar

from moldau.base.errors import ConfigError
from moldau.base.removed_settings import removal
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.producer_settings import ProducerSettings
from moldau.client.removed_settings import REMOVED
from moldau.client.settings import IGNORED, REFUSED, UNSUPPORTED_FAMILIES, read_texts
from moldau.engine.settings import ConnectionSettings, Settings

logger = logging.getLogger(__name__)

S = TypeVar("S", bound=Settings)

CLIENT_PREFIX: Final = "kafka."
SERVERS: Final = "bootstrap.servers"

_NEARNESS: Final = 0.85
"""How alike two names are, from 0 to 1, for one to be taken as the other misspelt. High: options
that are somebody else's, which Spark hands to every source, must not be refused."""

_NOT_CLIENTS: Final = frozenset({"version_ceilings"})
"""Settings that are not text; nobody but a test gives them."""


class Options:
    """Options by names whose case does not matter, read as what they are meant to be.

    options = Options({"subscribe": "t", "includeHeaders": "true"})
    options.flag("includeHeaders", default=False)
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return an option as it was given."""
        return self._values.get(name.lower(), default)

    def flag(self, name: str, *, default: bool) -> bool:
        """Read an option that is true or false."""
        value = self.text(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word not in ("true", "false"):
            raise ConfigError(f"{name}={value!r} is not true or false")
        return word == "true"

    def number(self, name: str, *, least: int = 0) -> int | None:
        """Read an option that is a whole number; None if it was not given."""
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value.strip())
        except ValueError:
            raise ConfigError(f"{name}={value!r} is not a whole number") from None
        if number < least:
            raise ConfigError(f"{name}={value!r} is below {least}")
        return number

    def number_or(self, name: str, default: int, *, least: int = 0) -> int:
        """Read an option that is a whole number, and has this one unless another is given."""
        given = self.number(name, least=least)
        return default if given is None else given

    def choice(self, name: str, choices: Sequence[str], *, default: str) -> str:
        """Read an option that is one of some words, in any case."""
        value = self.text(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word not in choices:
            raise ConfigError(f"{name}={value!r} is not one of {', '.join(choices)}")
        return word

    def check_names(self, known: Iterable[str]) -> None:
        """Refuse names that are known ones misspelt; others may be meant for somebody else."""
        by_folded = {name.lower(): name for name in known}
        for name in self._values:
            if name in by_folded or name.startswith(CLIENT_PREFIX):
                continue
            near = _nearest(name, by_folded)
            if near is not None:
                raise ConfigError(f"there is no option {name}: is {by_folded[near]} meant?")
            tell_once(name, "no option of this format has that name")


class ConnectionOptions(NamedTuple):
    """The settings of the client: their names checked, and the values of the connection's.

    Whoever takes more of them has the client check those (`checked`), before anything is done.
    """

    settings: Mapping[str, str]
    """By Kafka's dotted names, without the prefix."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ConnectionOptions:
        """Pick out the options that begin with `kafka.`; ConfigError if they cannot be.

        `kafka.bootstrap.servers` has to be among them.
        """
        settings = {
            folded.removeprefix(CLIENT_PREFIX): str(value)
            for name, value in options.items()
            if (folded := name.lower()).startswith(CLIENT_PREFIX)
        }
        if SERVERS not in settings:
            raise ConfigError(
                "the option kafka.bootstrap.servers is missing: name some brokers of the cluster,"
                " as host:port"
            )
        taken = cls({name: value for name, value in settings.items() if _is_taken(name)})
        checked(ConnectionSettings, taken.those_of(ConnectionSettings))
        return taken

    @property
    def servers(self) -> str:
        """The bootstrap servers, as they were given."""
        return self.settings[SERVERS]

    def consumer(self) -> dict[str, Any]:
        """Return what a `Consumer` takes: `Consumer(**connection.consumer(), group_id=None)`."""
        return self.those_of(ConnectionSettings, ConsumerSettings)

    def producer(self) -> dict[str, Any]:
        """Return what a `Producer` takes: `Producer(**connection.producer())`."""
        return self.those_of(ConnectionSettings, ProducerSettings, but=_NOT_PRODUCERS)

    def admin(self) -> dict[str, Any]:
        """Return what an `Admin` takes: `Admin(**connection.admin())`."""
        taken = self.those_of(ConnectionSettings, but=_NOT_ADMINS)
        if _API_TIMEOUT in self.settings:
            taken[_under(_API_TIMEOUT)] = self.settings[_API_TIMEOUT]
        return taken

    def those_of(self, *kinds: type[Settings], but: frozenset[str] = frozenset()) -> dict[str, Any]:
        """Return the texts of what such settings have, under their names."""
        names = {name for kind in kinds for name in kind.__annotations__} - but
        return {
            own: value for name, value in self.settings.items() if (own := _under(name)) in names
        }


_API_TIMEOUT: Final = "default.api.timeout.ms"
_NOT_PRODUCERS: Final = frozenset({"allow_auto_create_topics"})
_NOT_ADMINS: Final = frozenset({"allow_auto_create_topics"})
"""Settings of the connection that these clients decide by themselves."""

_REFUSED_HERE: Final[Mapping[str, str]] = {
    "auto.offset.reset": "startingOffsets says where a query begins, and failOnDataLoss what"
    " happens when records are gone",
    "enable.auto.commit": "the position of a query is kept in its checkpoint; commitToGroup shows"
    " it to lag tools as well",
    "key.deserializer": "keys come as binary: use DataFrame operations to read them",
    "value.deserializer": "values come as binary: use DataFrame operations or valueFormat",
    "key.serializer": "keys are strings or binary: use DataFrame operations to make them",
    "value.serializer": "values are strings or binary: use DataFrame operations to make them",
    "interceptor.classes": "an interceptor may change records behind the query's back",
    "partitioner.class": "it names a Java class: give a column `partition` instead",
    "transaction.two.phase.commit.enable": "transactions are begun and ended by the sink",
}
"""What Spark's own connector refuses too, and what would change where records go."""

_OF_NO_USE: Final[Mapping[str, str]] = {
    "group.remote.assignor": "no group assigns partitions here",
    "metadata.max.idle.ms": "topics that are not used any more are forgotten anyhow",
    "enable.metrics.push": IGNORED["enable.metrics.push"],
    "jmx.enable": "there is no JMX in Python",
}
"""What Kafka's Java client knows, and what makes no difference without it."""


def _is_taken(name: str) -> bool:
    """Tell whether our client is given a setting; ConfigError if leaving it out would mislead."""
    full = CLIENT_PREFIX + name
    reason = _REFUSED_HERE.get(name) or REFUSED.get(name)
    if reason is not None:
        raise ConfigError(f"{full} is not taken: {reason}")
    if (removed := REMOVED.get(name)) is not None:
        raise ConfigError(removal(full, removed))
    if name.startswith(UNSUPPORTED_FAMILIES):
        raise ConfigError(f"{full} is not supported yet: connections are plaintext")
    if _under(name) in _CLIENT_NAMES:
        return True
    reason = _OF_NO_USE.get(name) or IGNORED.get(name)
    if reason is None:
        near = _nearest(name, [known.replace("_", ".") for known in _CLIENT_NAMES])
        if near is not None:
            raise ConfigError(f"there is no setting {full}: is {CLIENT_PREFIX}{near} meant?")
        reason = "no client here has such a setting"
    tell_once(full, reason)
    return False


_CLIENT_NAMES: Final = (
    frozenset(ConnectionSettings.__annotations__)
    | frozenset(ConsumerSettings.__annotations__)
    | frozenset(ProducerSettings.__annotations__)
) - _NOT_CLIENTS


def checked(kind: type[S], values: Mapping[str, Any]) -> S:
    """Make settings of the client, from texts too; ConfigError names them as options are."""
    try:
        return read_texts(kind, values)
    except ConfigError as error:
        told = _NAMED.sub(lambda found: CLIENT_PREFIX + found[0].replace("_", "."), str(error))
        raise ConfigError(told) from None


_NAMED: Final = re.compile(rf"\b({'|'.join(sorted(_CLIENT_NAMES))})\b")


def _under(name: str) -> str:
    return name.replace(".", "_")


def _nearest(name: str, known: Iterable[str]) -> str | None:
    found = get_close_matches(name, list(known), 1, _NEARNESS)
    return found[0] if found else None


@functools.cache
def warn_once(text: str) -> None:
    """Warn of what has no effect; once a process, as Spark has options read for every batch."""
    logger.warning("%s", text)


@functools.cache
def tell_once(name: str, reason: str) -> None:
    """Log what is passed over; once a process, as Spark has options read for every batch."""
    logger.info("the option %s is ignored: %s", name, reason)
