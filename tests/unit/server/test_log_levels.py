"""Levels of loggers as configs: what is told, what may be changed, and that it takes effect."""

import logging

import pytest

from moldau.base.ids import BrokerId
from moldau.cluster.config_operations import ConfigOperation
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.log_levels import LEVELS, LogLevels, level_name
from moldau.server.configuration.values import Source

SET, DELETE, APPEND, SUBTRACT = range(4)
NAME = "moldau.some.part"


@pytest.fixture
def logger():
    made = logging.getLogger(NAME)
    yield made
    made.setLevel(logging.NOTSET)


@pytest.fixture
def levels(logger):
    return LogLevels(BrokerId(1))


def told(levels, name):
    (found,) = levels.describe("1", [name])
    return found


def alter(levels, *operations, resource="1", validate_only=False):
    levels.alter(
        resource, [ConfigOperation(*one) for one in operations], validate_only=validate_only
    )


def test_a_level_is_set_told_and_taken_back(levels, logger):
    before = told(levels, NAME).value
    for name in LEVELS:
        alter(levels, (NAME, SET, name))
        described = told(levels, NAME)
        assert (described.value, described.source) == (name, Source.DYNAMIC_BROKER_LOGGER)
        assert logger.isEnabledFor(LEVELS[name])
        assert not logger.isEnabledFor(LEVELS[name] - 1)
    alter(levels, (NAME, DELETE, None))
    assert told(levels, NAME).value == before
    assert logger.level == logging.NOTSET


def test_a_level_set_above_counts_for_all_below(levels):
    above = logging.getLogger("moldau.some")
    try:
        alter(levels, ("moldau.some", SET, "DEBUG"))
        assert told(levels, NAME).value == "DEBUG"
    finally:
        above.setLevel(logging.NOTSET)


def test_only_our_loggers_and_the_root_are_told(levels):
    logging.getLogger("somebody.else")
    names = [one.name for one in levels.describe("1", None)]
    assert names[0] == "root"
    assert NAME in names
    assert all(name.split(".")[0] in ("root", "moldau") for name in names)


def test_validating_changes_nothing(levels, logger):
    alter(levels, (NAME, SET, "FATAL"), validate_only=True)
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ((NAME, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, "debug"), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, ""), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, None), ErrorCode.INVALID_REQUEST),
        ((NAME, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ((NAME, SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST),
        ((NAME, 9, "INFO"), ErrorCode.INVALID_REQUEST),
        (("nobody", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("somebody.else", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_wrong_changes_nothing_at_all(levels, logger, operation, code):
    right = ("moldau.some", SET, "DEBUG")
    with pytest.raises(ApiError) as caught:
        alter(levels, right, operation)
    assert caught.value.code is code
    assert logging.getLogger("moldau.some").level == logging.NOTSET


@pytest.mark.parametrize("resource", ["", "9", "x", "-1", "1" * 5000])
def test_only_this_broker_has_loggers(levels, resource):
    for ask in (
        lambda: list(levels.describe(resource, None)),
        lambda: alter(levels, resource=resource),
    ):
        with pytest.raises(ApiError) as caught:
            ask()
        assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_levels_between_two_go_by_the_quieter():
    assert [level_name(level) for level in (1, 10, 15, 35, 50, 99)] == [
        "TRACE", "DEBUG", "INFO", "ERROR", "FATAL", "FATAL",
    ]  # fmt: skip
