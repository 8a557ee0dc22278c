"""Code in a signal handler knows it; no other code takes itself for such."""

from __future__ import annotations

import functools
import signal

import pytest

from moldau.client.consuming.interruptions import in_signal_handler


class Handlers:
    """The ways in which people write handlers."""

    def __init__(self):
        self.found = []

    def look(self):
        self.found.append(in_signal_handler())

    def method(self, number, frame):
        self.look()

    def unnamed(self, *_):
        self.look()

    def one_shot(self, number, frame):
        signal.signal(number, signal.SIG_DFL)
        self.look()

    def with_more(self, extra, number, frame):
        self.look()

    __call__ = method


def handlers():
    made = Handlers()
    return {
        "function": lambda number, frame: made.look(),
        "rest": lambda *_: made.look(),
        "method": made.method,
        "method with rest": made.unnamed,
        "object": made,
        "partial": functools.partial(made.with_more, "extra"),
        "put back": made.one_shot,
    }, made


@pytest.mark.parametrize("kind", list(handlers()[0]))
def test_every_kind_of_handler_is_recognised(kind):
    kinds, made = handlers()
    before = signal.signal(signal.SIGUSR1, kinds[kind])
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert made.found == [True]
    made.look()
    assert made.found == [True, False]


def test_a_handler_that_is_called_by_hand_with_nothing_is_none():
    kinds, made = handlers()
    for handler in kinds.values():
        if handler is not made.one_shot:
            handler(signal.SIGUSR1, None)
    assert not any(made.found)
