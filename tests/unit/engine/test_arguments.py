"""Arguments that are not what they should be are refused where they are given."""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from moldau.client.admin import AdminCalls, AsyncAdmin
from moldau.engine.arguments import (
    check_int,
    check_number,
    check_text,
    check_topic,
    checks_arguments,
)
from moldau.engine.broker_errors import InvalidTopic
from moldau.engine.errors import ClientError, InvalidArgument


@dataclass
class Item:
    name: str
    sizes: Iterable[int] = ()


@checks_arguments
async def call(
    name: str,
    count: int | None = None,
    *,
    items: Iterable[Item] = (),
    configs: Mapping[str, str | float] | None = None,
    pair: tuple[str, int] = ("t", 0),
) -> str:
    """Do nothing."""
    return f"{name}{count}{items}{configs}{pair}"


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((5,), {}, "name=5 is not str"),
        (("a", "5"), {}, "count='5' is not int"),
        (("a", True), {}, "count=True is not int"),
        (("a",), {"items": [5]}, "items="),
        (("a",), {"items": [Item(5)]}, "items="),
        (("a",), {"items": [Item("a", ["5"])]}, "items="),
        (("a",), {"configs": [5]}, "configs="),
        (("a",), {"configs": {5: "a"}}, "configs="),
        (("a",), {"configs": {"a": []}}, "configs="),
    ],
)
def test_what_is_not_as_declared_is_refused_by_name(arguments, options, said):
    with pytest.raises(InvalidArgument, match=said):
        asyncio.run(call(*arguments, **options))


def test_what_is_as_declared_is_taken():
    options = {"items": [Item("b", [1])], "configs": {"a": 1, "b": "c"}}
    asyncio.run(call("a", 5, **options))
    assert inspect.iscoroutinefunction(call)


def test_what_can_be_walked_once_is_looked_at_and_then_taken():
    said = asyncio.run(call("a", items=iter([Item("b", [1])])))
    assert said == asyncio.run(call("a", items=[Item("b", [1])]))
    with pytest.raises(InvalidArgument, match="items="):
        asyncio.run(call("a", items=iter([5])))


def test_a_wrong_argument_is_a_client_error_and_what_python_calls_it():
    for check, given in ((check_text, 5), (check_int, "5"), (check_number, "5")):
        for kind in (ClientError, TypeError, ValueError):
            with pytest.raises(kind, match=r"size='?5'? is not"):
                check("size", given)


@pytest.mark.parametrize("given", [None, 5, b"t", ["t"]])
def test_a_topic_is_named_by_a_text(given):
    with pytest.raises(InvalidArgument, match="a topic is named by a str"):
        check_topic(given)


@pytest.mark.parametrize("given", ["\udcff", "Grüße", "x" * 250])
def test_a_name_that_no_broker_could_read_is_refused(given):
    with pytest.raises(InvalidTopic):
        check_topic(given)


def test_the_types_of_every_call_of_the_admin_can_be_read():
    calls = [
        function
        for name, function in inspect.getmembers(AdminCalls, inspect.isfunction)
        if not name.startswith("_")
    ]
    assert len(calls) > 30
    for function in calls:
        assert typing.get_type_hints(inspect.unwrap(function))


@pytest.mark.parametrize(
    "ask",
    [
        lambda admin: admin.create_topic(5),
        lambda admin: admin.create_topic("t", "3"),
        lambda admin: admin.create_topic("t", timeout_ms="5"),
        lambda admin: admin.create_partitions("t", "12"),
        lambda admin: admin.create_partitions_of({"t": "12"}),
        lambda admin: admin.describe_topics([5]),
        lambda admin: admin.describe_groups([None]),
        lambda admin: admin.list_topics(include_internal="no"),
    ],
)
def test_the_admin_refuses_before_a_broker_is_asked(ask):
    with pytest.raises(InvalidArgument):
        asyncio.run(ask(AsyncAdmin()))
