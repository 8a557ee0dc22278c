"""What an answer means for a batch."""

from __future__ import annotations

import pytest

from kits.producer_kit import PRODUCER, batch
from moldau.client.producing.sequences import Gap, SequenceIdentity, Sequences, Verdict, verdict
from moldau.protocol.errors import ErrorCode


def numbered(count):
    """Return sequences of which the first was acknowledged, and all batches."""
    sequences = Sequences()
    sequences.adopt(PRODUCER)
    batches = [batch(b"a", b"b") for _ in range(count)]
    for one in batches:
        sequences.number(one)
    sequences.acknowledged(batches[0])
    return sequences, batches


@pytest.mark.parametrize(
    ("code", "decision"),
    [
        (ErrorCode.NONE, Verdict.WRITTEN),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, Verdict.WRITTEN),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.SPLIT),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FAIL),
        (ErrorCode.INVALID_RECORD, Verdict.FAIL),
    ],
)
@pytest.mark.parametrize("idempotent", [True, False])
def test_usual_answers_mean_the_same_with_and_without_numbers(code, decision, idempotent):
    sequences, (_, one) = numbered(2)
    assert verdict(code, one, sequences if idempotent else None, is_first=True) is decision


def test_a_single_record_too_large_fails():
    assert verdict(ErrorCode.MESSAGE_TOO_LARGE, batch(), None, is_first=True) is Verdict.FAIL


def test_out_of_order_behind_a_failed_batch_is_tried_again():
    sequences, batches = numbered(3)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict(code, batches[2], sequences, is_first=False) is Verdict.RETRY


def test_out_of_order_right_behind_the_last_acknowledged_needs_a_raised_epoch():
    sequences, batches = numbered(3)
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict(code, batches[1], sequences, is_first=True) is Verdict.RENUMBER


def test_out_of_order_behind_one_given_up_needs_a_raised_epoch():
    sequences, batches = numbered(3)
    sequences.given_up(batches[1])
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert verdict(code, batches[2], sequences, is_first=True) is Verdict.RENUMBER


def test_a_forgotten_producer_needs_a_raised_epoch():
    sequences, batches = numbered(2)
    code = ErrorCode.UNKNOWN_PRODUCER_ID
    assert verdict(code, batches[1], sequences, is_first=True) is Verdict.RENUMBER


def test_numbers_go_on_at_zero_after_the_last_int():
    sequences = Sequences()
    sequences.adopt(PRODUCER)
    sequences._next = 2**31 - 1
    first, second = batch(b"a", b"b"), batch(b"c")
    sequences.number(first)
    sequences.number(second)
    assert (first.sequence, second.sequence) == (2**31 - 1, 1)
    sequences.acknowledged(first)
    assert sequences.is_next(second)


def test_the_last_epoch_is_followed_by_a_new_id():
    assert SequenceIdentity(1, 0).raised() == SequenceIdentity(1, 1)
    assert SequenceIdentity(1, 2**15 - 2).raised() is None


def test_an_answer_for_an_earlier_epoch_acknowledges_nothing_now():
    sequences, batches = numbered(2)
    sequences.adopt(SequenceIdentity(9, 1))
    sequences.acknowledged(batches[1])
    assert sequences.gap is Gap.NONE
    fresh = batch()
    sequences.number(fresh)
    assert sequences.is_next(fresh)
