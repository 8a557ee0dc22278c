"""The chain of interceptors: in order, and past those that fail."""

from __future__ import annotations

from moldau.client.interceptors import InterceptorChain


class Adding:
    """Adds to what it sees, and remembers what it is told."""

    def __init__(self, number):
        self.number = number
        self.told = []

    def configure(self, configs):
        self.told.append(configs)

    def on_send(self, value):
        return [*value, self.number]

    def on_acknowledgement(self, *given):
        self.told.append(given)

    def close(self):
        self.told.append("closed")


class Failing:
    """Is of no use."""

    def on_send(self, value):
        raise RuntimeError

    def on_acknowledgement(self, *given):
        raise RuntimeError


def test_each_changes_what_the_one_before_made_and_a_failing_one_is_passed_over():
    chain = InterceptorChain([Adding(1), Failing(), Adding(2)], {})
    assert chain.changed("on_send", []) == [1, 2]


def test_all_are_told_configured_and_closed():
    last = Adding(0)
    chain = InterceptorChain([Failing(), last], {"client_id": "c"})
    chain.tell("on_acknowledgement", "metadata", None)
    chain.close()
    assert last.told == [{"client_id": "c"}, ("metadata", None), "closed"]


def test_an_empty_chain_is_false():
    assert not InterceptorChain([], {})
    assert InterceptorChain([Failing()], {})
