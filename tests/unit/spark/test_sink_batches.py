"""Batches that were encoded before are sent as the client's own would be."""

import threading

import numpy as np
import pyarrow as pa
import pytest

from moldau.client.batch_producer import PreparedBatch
from moldau.client.producing.batch_results import BatchResult
from moldau.client.producing.batches import ProducerBatch
from moldau.records.batch import parse_header
from moldau.records.compression import Codec
from moldau.records.record import read_records
from moldau.spark.sink.columns import Strings
from moldau.spark.sink.encoding import Rows, encode

TIMES = {"opened_at": 0.0, "deadline": 1.0}


def batch_result():
    return BatchResult("t", 0, threading.Lock())


def prepared(count=10, *, codec=Codec.NONE, transactional=False):
    values = Strings.of(pa.array([b"value %d" % number for number in range(count)]))
    rows = Rows(None, values, None, np.full(count, 5, np.int64))
    ((_, encoded),) = encode(rows, np.zeros(count, np.int64), 1 << 20, codec)
    return PreparedBatch(batch_result(), *encoded, None, transactional=transactional, **TIMES)


def usual(count=10, *, codec=Codec.NONE, transactional=False):
    batch = ProducerBatch(
        batch_result(), codec, None, transactional=transactional, reserved=0, **TIMES
    )
    for number in range(count):
        batch.append(5, None, b"value %d" % number)
    return batch


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_it_goes_out_as_the_clients_own_would(codec, transactional):
    ours = prepared(codec=codec, transactional=transactional)
    theirs = usual(codec=codec, transactional=transactional)
    for batch in (ours, theirs):
        batch.number(77, 3, 500)
    assert ours.sealed() == theirs.sealed()
    assert (ours.count, ours.size, ours.next_sequence) == (
        theirs.count, theirs.size, theirs.next_sequence,
    )  # fmt: skip


def test_it_can_be_numbered_anew_after_it_was_sealed():
    batch = prepared()
    batch.number(1, 0, 0)
    batch.sealed()
    batch.number(1, 1, 20)
    header = parse_header(batch.sealed())
    assert (header.producer_epoch, header.base_sequence) == (1, 20)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_one_that_is_too_large_for_the_broker_is_split(codec):
    batch = prepared(100, codec=codec, transactional=True)
    batch.number(1, 2, 3)
    halves = batch.halves()
    assert [half.sequence for half in halves] == [3, 3 + halves[0].count]
    records = [record.value for half in halves for record in read_records(half.sealed())]
    assert records == [b"value %d" % number for number in range(100)]
    assert all(parse_header(half.sealed()).transactional for half in halves)


def test_what_is_settled_holds_nothing():
    batch = prepared()
    batch.sealed()
    batch.drop()
    assert batch.sealed() == b""
