"""Every code has its exception, and every exception says what to do about it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

import moldau
import moldau.errors
from moldau import Admin, Consumer, Producer
from moldau.base.errors import ConfigError, MoldauError
from moldau.client import errors
from moldau.client.errors import (
    BrokerError,
    ClientError,
    ConnectionLost,
    InvalidSetting,
    NoBrokerReachable,
    ProducerFenced,
    RecordTooLarge,
    RequestTimedOut,
    broker_error,
)
from moldau.client.processing.retry_topics import RetryTopics
from moldau.client.processing.workers import KeyedWorkers
from moldau.protocol.errors import ErrorCode

SPARK = Path(moldau.__file__).parent / "spark"

EVERY_CLASS = [
    one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ClientError)
]


@pytest.mark.parametrize("code", [code for code in ErrorCode if code], ids=lambda code: code.name)
def test_every_code_makes_an_exception_that_carries_it(code):
    error = broker_error(code)
    assert isinstance(error, BrokerError)
    assert isinstance(error, MoldauError)
    assert error.code is code
    assert error.retriable is code.retriable
    assert str(error).startswith(f"{code.name}: {code.text}")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.code, str(again)) == (type(error), code, str(error))


def test_a_code_from_a_later_protocol_is_named_by_its_number():
    error = broker_error(4242)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "4242" in str(error)


def test_the_brokers_own_words_take_the_place_of_the_usual_text():
    error = broker_error(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a' already exists.")
    assert isinstance(error, errors.TopicAlreadyExists)
    assert str(error).startswith("TOPIC_ALREADY_EXISTS: Topic 'a' already exists. Use")


def test_what_happened_comes_first_and_the_advice_behind_it():
    assert str(ConnectionLost("it rained", advice="")) == "it rained"
    assert str(NoBrokerReachable("none")).startswith("none. Check bootstrap_servers")
    assert str(ConnectionLost("it rained.", advice="Wait.")) == "it rained. Wait."
    assert ConnectionLost("it rained.", advice="Wait.").what == "it rained."


def test_the_same_finding_has_one_name_whoever_makes_it():
    assert isinstance(broker_error(ErrorCode.MESSAGE_TOO_LARGE), RecordTooLarge)
    assert RecordTooLarge("2 MB are too many").code is ErrorCode.MESSAGE_TOO_LARGE
    assert RequestTimedOut("late").retriable


def test_a_fenced_producer_is_of_no_more_use_and_a_lost_connection_is():
    assert broker_error(ErrorCode.PRODUCER_FENCED).fatal
    assert not ProducerFenced.retriable
    assert not ConnectionLost("x").fatal


@pytest.mark.parametrize("kind", EVERY_CLASS, ids=lambda kind: kind.__name__)
def test_no_failure_is_both_passing_and_fatal_and_all_survive_pickling(kind):
    error = kind("what happened", advice="Do something.")
    assert not (error.retriable and error.fatal)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (kind, str(error))


@pytest.mark.parametrize("kind", EVERY_CLASS, ids=lambda kind: kind.__name__)
def test_a_traceback_names_the_module_that_users_import_from(kind):
    assert kind.__module__ == "moldau.errors"
    assert getattr(moldau.errors, kind.__name__) is kind


EVERY_ONE_FOR_USERS = [
    one
    for one in vars(moldau.errors).values()
    if isinstance(one, type) and issubclass(one, Exception)
]
ROOTS = {MoldauError, ClientError}


def test_errors_of_all_floors_that_users_meet_can_be_imported_from_one_place():
    from moldau.errors import (  # noqa: PLC0415 - the import is what is tested
        ConfigError,
        DataLost,
        MoldauError,
        ReadInterrupted,
        StorageError,
        UserError,
        WriteInterrupted,
    )

    assert issubclass(ConfigError, UserError)
    for kind in (UserError, StorageError, *EVERY_CLASS):
        assert issubclass(kind, MoldauError)
    for kind in (DataLost, ReadInterrupted, WriteInterrupted):
        assert issubclass(kind, UserError)


def test_what_spark_raises_on_topics_has_a_name_that_users_can_import():
    for path in sorted(SPARK.rglob("*.py")):
        if path.name == "errors.py" or "pipelines" in path.parts:  # whose commands print the text
            continue
        made = re.findall(r"^class (\w+)\((?:\w+Error|Exception)\b", path.read_text(), re.MULTILINE)
        assert not made, f"{path} has {made}"


@pytest.mark.parametrize(
    "kind", sorted(set(EVERY_ONE_FOR_USERS) - ROOTS, key=str), ids=lambda kind: kind.__name__
)
def test_every_error_says_what_to_do(kind):
    assert kind.advice.endswith(".")
    if issubclass(kind, ClientError) and kind is not InvalidSetting:
        assert kind("what happened").advice in str(kind("what happened"))


@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_a_setting_that_cannot_be_is_an_error_of_the_client_too(make):
    for settings in ({"client_idd": "x"}, {"request_timeout_ms": "soon"}, {"retry_backoff_ms": -1}):
        with pytest.raises(InvalidSetting) as caught:
            make(**settings)
        assert isinstance(caught.value, ConfigError)
        assert isinstance(caught.value, ClientError)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RetryTopics(None, group="g", delays_ms=[-1]),
        lambda: RetryTopics(None, group="g", delays_ms=["5"]),
        lambda: RetryTopics(None, group=5),
        lambda: KeyedWorkers(None, print, concurrency=0),
        lambda: KeyedWorkers(None, print, concurrency="16"),
        lambda: KeyedWorkers(None, print, commit_interval_ms="5"),
        lambda: KeyedWorkers(None, print, finish="never"),
    ],
)
def test_so_is_one_of_a_helper(make):
    with pytest.raises(ClientError):
        make()
