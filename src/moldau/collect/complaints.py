"""What is wrong, said once: one line when it begins, not one for every time it is met again."""

from __future__ import annotations

from collections.abc import Callable


class Complaints:
    """What has been said about what, and is still so."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.tell = say
        """Says something that is no complaint."""
        self._standing: dict[str, str] = {}

    def say(self, about: str, text: str) -> None:
        """Say what is wrong, unless that was the last thing said about it."""
        if self._standing.get(about) != text:
            self._standing[about] = text
            self.tell(text)

    def mention(self, about: str, text: str) -> None:
        """Say an example of what is wrong, unless something has been said about it before."""
        if about not in self._standing:
            self.say(about, text)

    def withdraw(self, about: str, text: str | None = None) -> None:
        """Take note that all is well again, and say so if there is a text and was a complaint."""
        if self._standing.pop(about, None) is not None and text is not None:
            self.tell(text)
