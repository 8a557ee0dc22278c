"""Every code has its exception, and every exception says what to do about it."""

from __future__ import annotations

import pickle

import pytest

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
from moldau.protocol.errors import ErrorCode

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


@pytest.mark.parametrize("kind", set(EVERY_CLASS) - {ClientError}, ids=lambda kind: kind.__name__)
def test_every_error_says_what_to_do(kind):
    assert kind.advice.endswith(".")
    if kind is not InvalidSetting:
        assert kind("what happened").advice in str(kind("what happened"))


@pytest.mark.parametrize("make", [Producer, Consumer, Admin])
def test_a_setting_that_cannot_be_is_an_error_of_the_client_too(make):
    for settings in ({"client_idd": "x"}, {"request_timeout_ms": "soon"}, {"retry_backoff_ms": -1}):
        with pytest.raises(InvalidSetting) as caught:
            make(**settings)
        assert isinstance(caught.value, ConfigError)
        assert isinstance(caught.value, ClientError)
