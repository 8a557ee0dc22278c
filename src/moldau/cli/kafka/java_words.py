"""Errors in the words of Kafka's commands, which print the names of Java's exceptions.

Scripts look for them: `... GroupIdNotFoundException: ...` is how many tell that a group is not
there. A name follows from the protocol's name of the code, with the exceptions below.
"""

from __future__ import annotations

from typing import Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client

PACKAGE: Final = "org.apache.kafka.common.errors"
IRREGULAR: Final = {
    "NON_EMPTY_GROUP": "GroupNotEmptyException",
    "REQUEST_TIMED_OUT": "TimeoutException",
    "TOPIC_ALREADY_EXISTS": "TopicExistsException",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopicException",
    "INVALID_CONFIG": "InvalidConfigurationException",
    "UNKNOWN_SERVER_ERROR": "UnknownServerException",
    "NOT_LEADER_OR_FOLLOWER": "NotLeaderOrFollowerException",
    "MESSAGE_TOO_LARGE": "RecordTooLargeException",
}
TEXTS: Final = {
    "GROUP_ID_NOT_FOUND": "The group id does not exist.",
    "NON_EMPTY_GROUP": "The group is not empty.",
    "GROUP_SUBSCRIBED_TO_TOPIC": (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed"
        " to it."
    ),
    "UNKNOWN_TOPIC_OR_PARTITION": "This server does not host this topic-partition.",
}
"""What stands after the name, where scripts look for that too."""
AUTHORIZATION: Final = "_AUTHORIZATION_FAILED"


class JavaFailure(MoldauError):  # noqa: N818 - it names what happened
    """What a command cannot do, in the very words that follow "failed due to"."""


def exception_name(error: MoldauError) -> str:
    """Return the name of the exception that Java's client raises for it."""
    if (code := _code_name(error)) is not None:
        return f"{PACKAGE}.{IRREGULAR.get(code) or _regular(code)}"
    if isinstance(error, (client.ConnectionLost, client.NoBrokerReachable)):
        return f"{PACKAGE}.TimeoutException"
    return f"{PACKAGE}.ApiException"


def text_of(error: MoldauError) -> str:
    """Return what happened in Kafka's words, or in those of the broker."""
    return TEXTS.get(_code_name(error) or "") or getattr(error, "what", "") or str(error)


def as_java_says(error: MoldauError) -> str:
    """Return the exception as Java prints it: its name and what happened."""
    if isinstance(error, JavaFailure):
        return str(error)
    return f"{exception_name(error)}: {text_of(error)}"


def _regular(code: str) -> str:
    if code.endswith(AUTHORIZATION):
        code = code.removesuffix("_FAILED")
    return "".join(word.capitalize() for word in code.split("_")) + "Exception"


def _code_name(error: MoldauError) -> str | None:
    """Return the protocol's name of the code of a broker's error."""
    from moldau.protocol.errors import ErrorCode  # noqa: PLC0415 - slow to load

    return ErrorCode(error.code).name if isinstance(error, client.BrokerError) else None
