"""The chain of interceptors: in order, and past those that fail."""

from __future__ import annotations

import pytest

from moldau.base.errors import ConfigError
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


def test_one_that_returns_nothing_or_something_else_is_passed_over(caplog):
    class Forgetful:
        def on_send(self, value):
            """Return nothing, as one that only looks might."""

    class Strange:
        def on_send(self, value):
            return "text"

    chain = InterceptorChain([Forgetful(), Strange(), Adding(1)], {})
    assert chain.changed("on_send", [], list) == [1]
    assert "returned a NoneType, not a list" in caplog.text
    assert "returned a str, not a list" in caplog.text


def test_a_class_is_made_an_interceptor_of():
    class Counting:
        def on_send(self, value):
            return value + 1

    assert InterceptorChain([Counting], {}).changed("on_send", 1) == 2


@pytest.mark.parametrize("given", ["com.example.Interceptor", Adding(1), [object()], [Adding], 5])
def test_what_would_never_be_called_is_refused(given):
    with pytest.raises(ConfigError, match="interceptor_classes"):
        InterceptorChain(given, {})


def test_none_in_a_properties_file_are_none():
    assert not InterceptorChain("", {})
