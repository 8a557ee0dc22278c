"""Which topics and partitions words on the command line mean, in the notations of Kafka."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moldau.cli.frame import client
from moldau.cli.kafka.java_words import JavaFailure
from moldau.cli.kafka.running import CommandFailed


class TopicFilter:
    """A regular expression for names of topics, or several with commas."""

    def __init__(self, given: str) -> None:
        """Compile it; a comma means "or", and quotes left over from a shell are taken off."""
        cleaned = given.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(cleaned)
        except re.error:
            raise CommandFailed(f"{given} is an invalid regex.") from None

    def takes(self, topic: str) -> bool:
        """Tell whether a topic is meant; the pattern must describe the whole name."""
        return self._pattern.fullmatch(topic) is not None


async def named_partitions(
    admin: client.AsyncAdmin, given: Iterable[str]
) -> tuple[list[client.TopicPartition], dict[client.TopicPartition, client.ClientError]]:
    """Return what `t` and `t:0,1` name, and topics that are not there (as partition -1)."""
    found: list[client.TopicPartition] = []
    whole: list[str] = []
    for one in given:
        topic, colon, numbers = one.partition(":")
        if not colon:
            whole.append(topic)
            continue
        if not topic or not numbers or ":" in numbers:
            raise CommandFailed(f"Invalid topic arg '{one}', expected topic name and partitions")
        for number in numbers.split(","):
            if not number.isdecimal():
                raise CommandFailed(f"Invalid partition '{number}' specified in topic arg '{one}''")
            found.append(client.TopicPartition(topic, int(number)))
    described = await admin.describe_topics(whole)
    for topic_name, told in described.ok.items():
        found += [client.TopicPartition(str(topic_name), one.partition) for one in told.partitions]
    missing = {
        client.TopicPartition(str(topic_name), -1): error
        for topic_name, error in described.errors.items()
    }
    return found, missing


async def check_partitions(
    admin: client.AsyncAdmin, partitions: Iterable[client.TopicPartition]
) -> None:
    """Refuse partitions that do not exist."""
    wanted = list(partitions)
    described = (await admin.describe_topics({one.topic for one in wanted})).or_raise()
    absent = [str(one) for one in wanted if one.partition >= len(described[one.topic].partitions)]
    if absent:
        raise JavaFailure(f'The partitions "{",".join(absent)}" do not exist')
