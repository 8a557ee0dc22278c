"""Which topics a word on the command line means: a regular expression, or several with commas."""

from __future__ import annotations

import re

from moldau.cli.kafka.running import CommandFailed


class TopicFilter:
    """A pattern for names of topics, in the notation all commands share."""

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
