"""The error table against those of two other implementations."""

from __future__ import annotations

import kafka.errors
import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from moldau.base.errors import MoldauError
from moldau.base.texts import MESSAGE_LENGTH_MAX
from moldau.protocol.errors import ApiError, ErrorCode

RENAMED_BY_KAFKA_PYTHON = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}


def test_the_table_has_every_code_and_no_gap():
    assert [code.value for code in ErrorCode] == list(range(-1, 137))


def test_names_and_retriability_agree_with_kio():
    ours = {code.name.lower(): (code.value, code.retriable) for code in ErrorCode}
    theirs = {code.name: (code.value, code.retriable) for code in KioErrorCode}
    assert theirs.items() <= ours.items()


def test_names_agree_with_kafka_python():
    theirs = {
        error.errno: error.message
        for error in vars(kafka.errors).values()
        if isinstance(error, type) and isinstance(getattr(error, "errno", None), int)
    }
    assert len(theirs) > 100
    wrong = {
        code: name
        for code, name in theirs.items()
        if name not in (ErrorCode(code).name, RENAMED_BY_KAFKA_PYTHON.get(code))
    }
    assert wrong == {}


def test_every_text_is_one_sentence_of_its_own():
    texts = [code.text for code in ErrorCode]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith(".") and "\n" not in text for text in texts)


def test_a_code_of_a_later_protocol_reads_as_unknown():
    assert ErrorCode.of(6) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ErrorCode.of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_error_carries_its_code_and_a_line_for_the_client():
    error = ApiError(ErrorCode.INVALID_CONFIG, "retention.ms is not a number")
    assert error.code == 40
    assert error.message == "retention.ms is not a number"
    assert str(error) == "INVALID_CONFIG: retention.ms is not a number"
    assert not error.retriable
    with pytest.raises(MoldauError):
        raise error


def test_an_error_without_a_line_says_what_its_code_means():
    error = ApiError(ErrorCode.NOT_CONTROLLER)
    assert error.message == ErrorCode.NOT_CONTROLLER.text
    assert error.retriable


def test_a_message_that_repeats_too_much_is_cut():
    error = ApiError(ErrorCode.INVALID_REQUEST, "é" * 100_000)
    assert len(error.message) == MESSAGE_LENGTH_MAX + len("...")
    assert len(str(error)) < MESSAGE_LENGTH_MAX + 100


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        (ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (ErrorCode.UNKNOWN_MEMBER_ID, "The coordinator is not aware of this member."),
        (ErrorCode.NON_EMPTY_GROUP, "The group is not empty."),
        (ErrorCode.GROUP_ID_NOT_FOUND, "The group id does not exist."),
        (ErrorCode.REBALANCE_IN_PROGRESS, "The group is rebalancing, so a rejoin is needed."),
        (
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "Messages are rejected since there are fewer in-sync replicas than required.",
        ),
        (ErrorCode.INVALID_PARTITIONS, "Number of partitions is below 1."),
    ],
)
def test_texts_that_people_look_for_are_kafkas(code, text):
    assert code.text == text
