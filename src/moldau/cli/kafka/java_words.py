"""Errors in the words of Kafka's commands, which print the names of Java's exceptions.

Scripts look for them: `... GroupIdNotFoundException: ...` is how many tell that a group is not
there. A name follows from the protocol's name of the code, with the exceptions below.
"""

from __future__ import annotations

from typing import Final

from moldau.base.errors import MoldauError
from moldau.cli.frame import client
from moldau.protocol.errors import ErrorCode

PACKAGE: Final = "org.apache.kafka.common.errors"
IRREGULAR: Final = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "NotLeaderOrFollowerException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
}
TEXTS: Final = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed"
        " to it."
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}
"""What stands after the name, where scripts look for that too."""
AUTHORIZATION: Final = "_AUTHORIZATION_FAILED"


class JavaFailure(MoldauError):  # noqa: N818 - it names what happened
    """What a command cannot do, in the very words that follow "failed due to"."""


def exception_name(error: MoldauError) -> str:
    """Return the name of the exception that Java's client raises for it."""
    if isinstance(error, client.BrokerError):
        code = ErrorCode(error.code)
        return f"{PACKAGE}.{IRREGULAR.get(code) or _regular(code.name)}"
    if isinstance(error, (client.ConnectionLost, client.NoBrokerReachable)):
        return f"{PACKAGE}.TimeoutException"
    return f"{PACKAGE}.ApiException"


def text_of(error: MoldauError) -> str:
    """Return what happened in Kafka's words, or in those of the broker."""
    text = TEXTS.get(ErrorCode(error.code)) if isinstance(error, client.BrokerError) else None
    return text or getattr(error, "what", "") or str(error)


def as_java_says(error: MoldauError) -> str:
    """Return the exception as Java prints it: its name and what happened."""
    if isinstance(error, JavaFailure):
        return str(error)
    return f"{exception_name(error)}: {text_of(error)}"


def _regular(code: str) -> str:
    if code.endswith(AUTHORIZATION):
        code = code.removesuffix("_FAILED")
    return "".join(word.capitalize() for word in code.split("_")) + "Exception"
