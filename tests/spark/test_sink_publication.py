"""Exactly once: drivers die and come back between any two steps, and tasks run as often as they
like; what readers of committed records find is what went in.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter

import pytest

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, end_offset, topic_config
from kafka_harness.waiting import eventually
from moldau.client.admin import END, Admin, OffsetSpec
from moldau.spark.sink.helping_topics import MARKER_PARTITIONS as COUNT
from moldau.spark.sink.markers import marker_place
from moldau.spark.sink.options import DEFAULT_MARKER_TOPIC, SinkOptions
from moldau.spark.sink.publication import PublicationOutcome, Publisher, Step, Writer
from spark.sink_drivers import Driver, Tasks

PARTITIONS = 2
ROWS = 30
TRANSACTION_TIMEOUT_MS = 30_000
"""Far longer than a driver is held up, and short enough that a test that fails in the middle of a
transaction does not take others with it, which wait for its end."""
BATCHES = 3
"""With a death after each of seven steps: twenty-one of them, in each of two ways to stage."""


@pytest.fixture
def topic(broker):
    return create_topic(broker.address, fresh_topic("once"), PARTITIONS)


@pytest.fixture(params=["inline", "staged"])
def options(request, broker, topic):
    """Rows travel in messages, or by way of a topic for staging."""
    return {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "exactly.once": "true",
        "kafka.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
        "exactly.once.inline.max.bytes": "100000" if request.param == "inline" else "0",
    }


@pytest.fixture
def staging_options(broker, topic):
    return {
        "kafka.bootstrap.servers": broker.address,
        "topic": topic,
        "exactly.once": "true",
        "kafka.transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
        "exactly.once.inline.max.bytes": "0",
    }


def rows(batch_id):
    return [b"row %d of batch %d" % (number, batch_id) for number in range(ROWS)]


def in_all(batch_count):
    return Counter(row for batch_id in range(batch_count) for row in rows(batch_id))


def run(options, query, batch_id, staged, stop_at=None, *, dies=False):
    """Run a driver to its end; return what it says last, None if it was killed."""
    with Driver(options, query, [(batch_id, staged)], stop_at, dies=dies) as driver:
        return driver.said()


def test_drivers_killed_after_every_step_write_each_row_once(committed, options):
    """Each batch is tried until a driver dies after its commit; the next one finds it done."""
    query, chance = str(uuid.uuid4()), random.Random(1)
    tasks = Tasks(options, query, 2)
    crash_count = 0
    for batch_id in range(BATCHES):
        steps = [step for step in Step if step not in (Step.COMMITTED, Step.CLEANED)]
        chance.shuffle(steps)
        for step in [*steps, Step.COMMITTED]:
            staged = tasks.staged(batch_id, rows(batch_id))
            assert run(options, query, batch_id, staged, step.name, dies=True) is None
            crash_count += 1
            is_there = step is Step.COMMITTED
            assert committed() == in_all(batch_id + is_there)
        staged = tasks.staged(batch_id, rows(batch_id))
        assert run(options, query, batch_id, staged) == "DONE_BEFORE"
    assert crash_count == 7 * BATCHES
    assert committed() == in_all(BATCHES)


GONE = "rows that tasks had staged are gone"
FENCED = "another run of the query has begun since"
LAST_WORDS = {
    Step.TAKEN: {"batch 1 of it has been written already"},
    Step.MARKER_READ: {GONE},
    Step.BEGUN: {GONE},
    Step.COPIED_ONE: {GONE, FENCED},
    Step.COPIED: {FENCED},
    Step.MARKED: {FENCED},
    Step.COMMITTED: {PublicationOutcome.PUBLISHED.name},
    Step.CLEANED: {PublicationOutcome.PUBLISHED.name},
}
"""What a driver may say that was held up after a step, and found that another had gone on."""


@pytest.mark.parametrize("step", Step, ids=lambda step: step.name)
def test_a_driver_that_comes_back_after_another_has_gone_on_adds_nothing(
    committed, staging_options, step
):
    query = str(uuid.uuid4())
    tasks = Tasks(staging_options, query, 4)
    with Driver(staging_options, query, [(0, tasks.staged(0, rows(0)))], step.name) as zombie:
        assert zombie.said() == step.name
        said = run(staging_options, query, 0, tasks.staged(0, rows(0)))
        assert said in ("PUBLISHED", "DONE_BEFORE")
        assert run(staging_options, query, 1, tasks.staged(1, rows(1))) == "PUBLISHED"
        zombie.go_on()
        said = zombie.said() or "nothing"
        assert any(words in said for words in LAST_WORDS[step]), said
    assert committed() == in_all(2)
    assert run(staging_options, query, 2, tasks.staged(2, rows(2))) == "PUBLISHED"
    assert committed() == in_all(3)


def test_one_driver_publishes_batch_after_batch(committed, options):
    query = str(uuid.uuid4())
    tasks = Tasks(options, query, 5)
    batches = [(batch_id, tasks.staged(batch_id, rows(batch_id))) for batch_id in range(3)]
    with Driver(options, query, batches) as driver:
        assert driver.said() == "PUBLISHED"
    assert committed() == in_all(3)


def test_processes_of_one_driver_publish_in_turn(committed, options):
    """Spark asks whichever is free, if several streams run in a driver."""
    query = str(uuid.uuid4())
    tasks = Tasks(options, query, 13)
    publishers = [
        Publisher(SinkOptions.from_options(options), Writer.of_query(query)) for _ in "ab"
    ]
    try:
        for batch_id, asked in enumerate([0, 0, 1, 0, 1, 1, 0]):
            staged = tasks.staged(batch_id, rows(batch_id))
            assert publishers[asked].publish(batch_id, staged) is PublicationOutcome.PUBLISHED
    finally:
        for publisher in publishers:
            publisher.give_up()
    assert committed() == in_all(7)


def test_a_query_that_is_begun_again_in_a_driver_is_no_other_run_to_its_processes(
    committed, options
):
    """Spark, which has not noted the last batch, asks the process that published the one before."""
    query = str(uuid.uuid4())
    tasks = Tasks(options, query, 14)
    publishers = [
        Publisher(SinkOptions.from_options(options), Writer.of_query(query)) for _ in "ab"
    ]

    def publish(asked: int, batch_id: int, run: str) -> PublicationOutcome:
        staged = tasks.staged(batch_id, rows(batch_id))
        of_run = [one._replace(share=one.share._replace(run=run)) for one in staged]
        return publishers[asked].publish(batch_id, of_run)

    try:
        assert publish(0, 0, "first") is PublicationOutcome.PUBLISHED
        assert publish(1, 1, "first") is PublicationOutcome.PUBLISHED
        assert publish(0, 1, "second") is PublicationOutcome.DONE_BEFORE
        assert publish(1, 2, "second") is PublicationOutcome.PUBLISHED
        assert publish(0, 3, "second") is PublicationOutcome.PUBLISHED
    finally:
        for publisher in publishers:
            publisher.give_up()
    assert committed() == in_all(4)


def test_a_batch_that_was_planned_anew_is_not_written_and_its_driver_warns(
    committed, staging_options, caplog
):
    query = str(uuid.uuid4())
    tasks = Tasks(staging_options, query, 6)
    assert run(staging_options, query, 0, tasks.staged(0, rows(0))) == "PUBLISHED"
    publisher = Publisher(SinkOptions.from_options(staging_options), Writer.of_query(query))
    try:
        outcome = publisher.publish(0, tasks.staged(0, rows(0) + rows(1)))
    finally:
        publisher.give_up()
    assert outcome is PublicationOutcome.DONE_BEFORE
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(warned) == 1
    assert f"batch 0 of query {query} is there already" in warned[0]
    assert f"{ROWS} rows then, {2 * ROWS} now" in warned[0]
    assert committed() == in_all(1)


def test_a_task_that_wakes_up_late_adds_nothing(committed, staging_options):
    query = str(uuid.uuid4())
    tasks = Tasks(staging_options, query, 7)
    assert run(staging_options, query, 0, tasks.staged(0, rows(0))) == "PUBLISHED"
    tasks.attempt(0, 0, rows(0))
    assert run(staging_options, query, 1, tasks.staged(1, rows(1))) == "PUBLISHED"
    assert committed() == in_all(2)


def test_a_checkpoint_that_was_taken_back_is_refused(committed, options):
    query = str(uuid.uuid4())
    tasks = Tasks(options, query, 8)
    for batch_id in (0, 1):
        assert run(options, query, batch_id, tasks.staged(batch_id, rows(batch_id))) == "PUBLISHED"
    said = run(options, query, 0, tasks.staged(0, rows(0)))
    assert "batch 0 of query" in said
    assert "the checkpoint was taken back to an older state" in said
    assert committed() == in_all(2)


def test_rows_staged_for_another_batch_are_refused(committed, options):
    query = str(uuid.uuid4())
    tasks = Tasks(options, query, 9)
    said = run(options, query, 1, tasks.staged(0, rows(0)))
    assert "nothing was published" in said
    assert committed() == Counter()


def test_staged_rows_that_are_gone_are_an_error_and_leave_nothing(
    broker, committed, staging_options
):
    query = str(uuid.uuid4())
    tasks = Tasks(staging_options, query, 10)
    staged = tasks.staged(0, rows(0))
    with Admin(broker.address) as admin:
        places = {(one.staging_topic, one.staging_partition): END for one in staged}
        admin.delete_records(places).or_raise()
    said = run(staging_options, query, 0, staged)
    assert "rows that tasks had staged are gone" in said
    assert committed() == Counter()
    assert run(staging_options, query, 0, tasks.staged(0, rows(0))) == "PUBLISHED"
    assert committed() == in_all(1)


def test_what_was_published_is_deleted_from_where_it_was_staged(broker, staging_options):
    query = str(uuid.uuid4())
    staged = Tasks(staging_options, query, 11).staged(0, rows(0))
    assert run(staging_options, query, 0, staged) == "PUBLISHED"
    with Admin(broker.address) as admin:
        for one in staged:
            place = (one.staging_topic, one.staging_partition)
            first = admin.list_offsets({place: OffsetSpec.EARLIEST})[place].offset
            assert first > one.located[-1].staging_offset


def test_staged_rows_that_nobody_publishes_have_a_short_life(broker, staging_options):
    query = str(uuid.uuid4())
    options = {**staging_options, "exactly.once.staging.retention.ms": "7200000"}
    (one, *_) = Tasks(options, query, 12).staged(0, rows(0))
    assert topic_config(broker.address, one.staging_topic, "retention.ms") == "7200000"


def test_a_batch_without_rows_costs_nothing(options):
    query = str(uuid.uuid4())
    staged = [Tasks(options, query, 13).attempt(0, 0, [])]
    assert run(options, query, 0, staged) == "EMPTY"


def test_a_marker_behind_anothers_open_transaction_is_not_overlooked(broker, committed, options):
    """Two queries share a partition of the marker topic; one is in the middle of its commit."""
    one, other = neighbours()
    ours, theirs = Tasks(options, one, 14), Tasks(options, other, 15)
    first = [(0, ours.staged(0, rows(0)))]
    with Driver(options, one, first, Step.MARKER_READ.name) as held:
        assert held.said() == Step.MARKER_READ.name
        place = marker_place(DEFAULT_MARKER_TOPIC, Writer.of_query(one).marker_key, COUNT)
        before = end_offset(broker.address, *place)
        second = [(0, theirs.staged(0, rows(1)))]
        # It is kept open while two more drivers start, on a machine that may be busy.
        patient = {**options, "kafka.transaction.timeout.ms": "120000"}
        with Driver(patient, other, second, Step.MARKED.name) as open_one:
            assert open_one.said() == Step.MARKED.name
            eventually(
                lambda: end_offset(broker.address, *place) > before, "their marker is written"
            )
            held.go_on()
            assert held.said() == "PUBLISHED"
            with Driver(options, one, [(0, ours.staged(0, rows(0)))]) as again:
                assert again.is_silent(0.5)
                open_one.go_on()
                assert open_one.said() == "PUBLISHED"
                assert again.said() == "DONE_BEFORE"
    assert committed() == in_all(2)


def neighbours():
    """Return two queries whose markers are in one partition."""
    first = str(uuid.uuid4())
    while True:
        second = str(uuid.uuid4())
        places = {
            marker_place(DEFAULT_MARKER_TOPIC, Writer.of_query(query).marker_key, COUNT)
            for query in (first, second)
        }
        if len(places) == 1:
            return first, second


def test_partitions_that_are_added_to_the_marker_topic_hide_no_marker(broker, options):
    mine = {**options, "exactly.once.marker.topic": fresh_topic("markers")}
    queries = [str(uuid.uuid4()) for _ in range(4)]
    staged = {query: Tasks(mine, query, 17).staged(0, rows(0)) for query in queries}
    assert {run(mine, query, 0, staged[query]) for query in queries} == {"PUBLISHED"}
    with Admin(broker.address) as admin:
        admin.create_partitions(mine["exactly.once.marker.topic"], 7 * COUNT)
    assert {run(mine, query, 0, staged[query]) for query in queries} == {"DONE_BEFORE"}


def test_the_marker_topic_is_set_up_to_stay_short(broker, options):
    query = str(uuid.uuid4())
    staged = Tasks(options, query, 16).staged(0, rows(0))
    assert run(options, query, 0, staged) == "PUBLISHED"
    with Admin(broker.address) as admin:
        assert len(admin.describe_topic(DEFAULT_MARKER_TOPIC).partitions) == COUNT
    config = topic_config(broker.address, DEFAULT_MARKER_TOPIC, "cleanup.policy")
    assert config == "compact"


def test_a_marker_topic_that_forgets_is_refused(broker, committed, options):
    forgetful = create_topic(broker.address, fresh_topic("markers"), 1)
    query = str(uuid.uuid4())
    named = {**options, "exactly.once.marker.topic": forgetful}
    said = run(named, query, 0, Tasks(named, query, 17).staged(0, rows(0)))
    assert f"the topic {forgetful} has cleanup.policy=delete" in said
    assert committed() == Counter()
