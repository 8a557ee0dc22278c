"""What a fetch finds, when it is enough, and who wakes one that waits."""

import asyncio
from types import SimpleNamespace

import pytest

from kits import log_kit
from kits.fetch_kit import FAR, ME, Kit, errors, once, sizes
from kits.log_kit import append_values, region_bytes, sized_batch
from kits.partition_kit import give_role
from kits.slicing import finished
from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.ids import PartitionKey
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import iter_batches
from moldau.replication.partition import Role
from moldau.server.fetch.reading import ParkedFetch, ParkedFetches, by_topic
from moldau.server.handlers.fetch import mixes_names_and_ids


def batch_count(fetched):
    return sum(1 for _ in iter_batches(region_bytes(fetched), allow_cut=True))


# How much


def test_what_is_there_is_found_from_its_offset_on():
    kit = Kit("t")
    kit.append("t", *(sized_batch(200) for _ in range(3)))
    (fetched,), enough = finished(kit.fetch(once(), {"t": (1, FAR)}).look())
    assert enough
    assert fetched.size == 400
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (
        3,
        3,
        0,
    )


def test_less_than_the_minimum_is_not_enough_and_more_is():
    kit = Kit("t")
    kit.append("t", sized_batch(200))
    assert not finished(kit.fetch(once(), {"t": (0, FAR)}, min_bytes=201).look())[1]
    assert finished(kit.fetch(once(), {"t": (0, FAR)}, min_bytes=200).look())[1]


@pytest.mark.parametrize("min_bytes", [0, -1, -(2**31)])
def test_a_client_that_asks_for_no_minimum_never_waits(min_bytes):
    kit = Kit("t")
    assert finished(kit.fetch(once(), {"t": (0, FAR)}, min_bytes=min_bytes).look())[1]


@pytest.mark.parametrize(
    ("max_bytes", "partition_max_bytes"),
    [(1, FAR), (FAR, 1), (0, FAR), (FAR, 0), (-1, FAR), (FAR, -1), (-(2**31), -(2**31))],
)
def test_the_first_batch_is_whole_whatever_the_limits(max_bytes, partition_max_bytes):
    kit = Kit("t")
    kit.append("t", sized_batch(5000), sized_batch(5000))
    fetch = kit.fetch(once(), {"t": (0, partition_max_bytes)}, max_bytes=max_bytes)
    (fetched,), enough = finished(fetch.look())
    assert enough
    assert batch_count(fetched) == 1


def test_only_the_very_first_batch_of_an_answer_may_exceed_limits():
    kit = Kit("a", "b")
    for name in ("a", "b"):
        kit.append(name, sized_batch(5000))
    fetch = kit.fetch(once(), {"a": (0, 10), "b": (0, 10)}, max_bytes=6000)
    found, _ = finished(fetch.look())
    assert sizes(found) == {"a": 5000}


def test_a_partition_that_was_held_back_is_first_in_the_next_answer_of_its_session():
    kit = Kit("a", "b")
    for name in ("a", "b"):
        kit.append(name, sized_batch(5000))
    session = kit.session()
    wanted = {"a": (0, 10), "b": (0, 10)}
    answers = []
    for _ in range(3):
        fetch = kit.fetch(session, wanted, max_bytes=6000)
        found, _ = finished(fetch.look())
        answers.append(sizes(finished(fetch.finish(found))))
        wanted = {}
    assert answers == [{"a": 5000}, {"b": 5000}, {"a": 5000}]


def test_clients_of_an_old_time_get_their_limits_kept_to_the_byte():
    kit = Kit("t")
    kit.append("t", sized_batch(5000))
    (fetched,), _ = finished(kit.fetch(once(), {"t": (0, 10)}, hard_limit=True).look())
    assert fetched.size == 10


@pytest.mark.parametrize(("wanted", "size"), [(5000, 5000), (FAR, 5000), (4999, 3000)])
def test_a_limit_of_ours_does_not_cut_the_first_batch_of_an_old_client(wanted, size):
    kit = Kit("t")
    kit.append("t", sized_batch(5000), sized_batch(5000))
    fetch = kit.fetch(once(), {"t": (0, wanted)}, hard_limit=True, max_bytes=3000)
    (fetched,), _ = finished(fetch.look())
    assert fetched.size == size


def test_the_limit_of_the_answer_holds_over_all_partitions():
    kit = Kit("a", "b", "c")
    for name in ("a", "b", "c"):
        kit.append(name, sized_batch(1000), sized_batch(1000))
    fetch = kit.fetch(once(), dict.fromkeys("abc", (0, FAR)), max_bytes=3000)
    found, _ = finished(fetch.look())
    assert sizes(found) == {"a": 2000, "b": 1000}
    assert [fetched.reader.topic for fetched in finished(fetch.finish(found))] == ["a", "b", "c"]


def test_a_busy_partition_cannot_starve_the_others_of_a_session():
    kit = Kit("a", "b", "c")
    for name in ("a", "b", "c"):
        kit.append(name, *(sized_batch(1000) for _ in range(4)))
    session = kit.session()
    served = []
    wanted = dict.fromkeys("abc", (0, FAR))
    for _ in range(3):
        fetch = kit.fetch(session, wanted, max_bytes=1000)
        found, _ = finished(fetch.look())
        finished(fetch.finish(found))
        served += sizes(found)
        wanted = {}
    assert sorted(served) == ["a", "b", "c"]


# What is refused


def test_an_offset_outside_of_the_log_is_an_answer_at_once():
    kit = Kit("t")
    kit.append("t", sized_batch(200))
    for offset in (-1, 2, 2**63 - 1, -(2**63)):
        found, enough = finished(kit.fetch(once(), {"t": (offset, FAR)}, min_bytes=FAR).look())
        assert enough
        assert errors(found) == {"t": ErrorCode.OFFSET_OUT_OF_RANGE}
        (one,) = found
        assert (one.high_watermark, one.last_stable_offset, one.log_start_offset) == (-1, -1, -1)


def test_the_end_of_the_log_is_no_error_and_not_enough():
    kit = Kit("t")
    kit.append("t", sized_batch(200))
    found, enough = finished(kit.fetch(once(), {"t": (1, FAR)}).look())
    assert not enough
    assert not errors(found)


def test_a_partition_or_topic_id_nobody_knows_is_an_answer_at_once():
    kit = Kit("t")
    found, enough = finished(kit.fetch(once(), {"nobody": (0, FAR), b"\7" * 16: (0, FAR)}).look())
    assert enough
    assert errors(found) == {
        "nobody": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        b"\7" * 16: ErrorCode.UNKNOWN_TOPIC_ID,
    }


def test_an_error_of_one_partition_does_not_keep_the_others_from_their_data():
    kit = Kit("t")
    kit.append("t", sized_batch(200))
    found, _ = finished(kit.fetch(once(), {"nobody": (0, FAR), "t": (0, FAR)}).look())
    assert sizes(found) == {"t": 200}


@pytest.mark.parametrize(
    ("believed", "error"),
    [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_reader_with_another_epoch_in_mind_is_fenced(believed, error):
    kit = Kit("t")
    give_role(kit["t"], Role(ME, 1, 1, (ME,), (ME,)))
    session = once()
    session.reader("t", 0).move(0, FAR, believed, -1)
    found, _ = finished(kit.fetch(session).look())
    assert errors(found) == {"t": error}


@pytest.mark.parametrize(("began", "goes_on"), [("a", True), (bytes([1] * 16), False)])
def test_a_session_does_not_change_between_names_and_ids(began, goes_on):
    session = once()
    assert not mixes_names_and_ids(session, by_id=goes_on)
    session.reader(began, 0)
    assert mixes_names_and_ids(session, by_id=goes_on)
    assert not mixes_names_and_ids(session, by_id=not goes_on)


def test_a_reader_whose_last_epoch_was_never_ours_is_out_of_range():
    kit = Kit("a")
    append_values(kit["a"].log, b"x")
    kit["a"].advance()
    session = once()
    fetch = kit.fetch(session)
    session.reader("a", 0).move(0, FAR, -1, 5)
    assert errors(finished(fetch.look())[0]) == {"a": ErrorCode.OFFSET_OUT_OF_RANGE}


def test_the_leaders_own_epoch_is_known_before_its_first_record():
    kit = Kit("a")
    assert kit["a"].epoch_end(0) == (0, 0)
    assert kit["a"].epoch_end(1) == (-1, -1)


@pytest.mark.parametrize("committed_only", [True, False])
def test_aborted_transactions_are_listed_for_those_who_ask_also_where_nothing_is(committed_only):
    kit = Kit("a")
    fetch = kit.fetch(once(), {"a": (0, FAR)}, committed_only=committed_only)
    (fetched,) = finished(fetch.finish(finished(fetch.look())[0]))
    assert fetched.aborted == (() if committed_only else None)


def test_a_log_that_is_offline_is_a_storage_error():
    kit = Kit("t")
    kit["t"].log.offline = True
    assert errors(finished(kit.fetch(once(), {"t": (0, FAR)}).look())[0]) == {
        "t": ErrorCode.KAFKA_STORAGE_ERROR
    }


@pytest.mark.patches
def test_a_disk_that_fails_under_a_reader_is_its_partitions_error_alone(monkeypatch):
    kit = Kit("good", "bad")
    for name in ("good", "bad"):
        kit.append(name, sized_batch(200))

    def failing(self, *_args, **_more):
        raise StorageError(self.folder, "Input/output error")

    kind = type(kit["bad"].log)
    read = kind.read
    monkeypatch.setattr(
        kind,
        "read",
        lambda self, *args, **more: (failing if "bad" in self.folder else read)(
            self, *args, **more
        ),
    )
    failed = []
    fetch = kit.fetch(once(), {"bad": (0, FAR), "good": (0, FAR)}, storage_failed=failed.append)
    found, enough = finished(fetch.look())
    assert enough
    assert errors(found) == {"bad": ErrorCode.KAFKA_STORAGE_ERROR}
    assert sizes(found) == {"good": 200}
    assert [error.path for error in failed] == [kit["bad"].log.folder]


@pytest.mark.patches
def test_bytes_that_rotted_under_a_reader_are_its_partitions_error_alone(monkeypatch):
    kit = Kit("good", "bad")
    for name in ("good", "bad"):
        kit.append(name, sized_batch(200))
    kind = type(kit["bad"].log)
    read = kind.read

    def rotten(self, *args, **more):
        if "bad" in self.folder:
            raise CorruptRecords("a batch of -1 bytes")
        return read(self, *args, **more)

    monkeypatch.setattr(kind, "read", rotten)
    found, enough = finished(kit.fetch(once(), {"bad": (0, FAR), "good": (0, FAR)}).look())
    assert enough
    assert errors(found) == {"bad": ErrorCode.CORRUPT_MESSAGE}
    assert sizes(found) == {"good": 200}


# Nothing above what may be seen


def test_nothing_at_or_above_the_high_watermark_is_found():
    kit = Kit("t")
    kit.append("t", sized_batch(200))
    log_kit.append(kit["t"].log, sized_batch(200))
    (fetched,), _ = finished(kit.fetch(once(), {"t": (0, FAR)}).look())
    assert fetched.size == 200
    found, enough = finished(kit.fetch(once(), {"t": (1, FAR)}).look())
    assert not enough
    assert not sizes(found)


# Sessions


def test_the_first_answer_of_a_session_names_every_partition():
    kit = Kit("full", "empty")
    kit.append("full", sized_batch(200))
    fetch = kit.fetch(kit.session(), {"full": (0, FAR), "empty": (0, FAR)}, whole=True)
    answer = finished(fetch.finish(finished(fetch.look())[0]))
    assert [fetched.reader.topic for fetched in answer] == ["full", "empty"]


def test_later_answers_of_a_session_tell_only_news():
    kit = Kit("full", "empty")
    session = kit.session()
    first = kit.fetch(session, {"full": (0, FAR), "empty": (0, FAR)}, whole=True)
    finished(first.finish(finished(first.look())[0]))
    kit.append("full", sized_batch(200))
    second = kit.fetch(session)
    assert [one.reader.topic for one in finished(second.finish(finished(second.look())[0]))] == [
        "full"
    ]
    third = kit.fetch(session, {"full": (1, FAR)})
    assert finished(third.finish(finished(third.look())[0])) == []


def test_a_reader_that_did_not_move_is_given_the_same_data_again():
    kit = Kit("t")
    kit.append("t", sized_batch(200))
    session = kit.session()
    for wanted in ({"t": (0, FAR)}, {}, {}):
        fetch = kit.fetch(session, wanted)
        answer = finished(fetch.finish(finished(fetch.look())[0]))
        assert sizes(answer) == {"t": 200}


def test_an_error_is_told_again_until_it_is_over():
    kit = Kit()
    session = kit.session()
    for wanted in ({"t": (0, FAR)}, {}):
        fetch = kit.fetch(session, wanted)
        assert errors(finished(fetch.finish(finished(fetch.look())[0]))) == {
            "t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
    kit.add("t")
    kit.append("t", sized_batch(200))
    fetch = kit.fetch(session)
    assert sizes(finished(fetch.finish(finished(fetch.look())[0]))) == {"t": 200}


def test_quiet_partitions_of_a_session_are_not_looked_at():
    names = [f"t{number}" for number in range(50)]
    kit = Kit(*names)
    session = kit.session()
    first = kit.fetch(session, dict.fromkeys(names, (0, FAR)), whole=True)
    finished(first.finish(finished(first.look())[0]))
    assert not session.ready
    kit.append("t7", sized_batch(200))
    assert [reader.topic for reader in session.ready] == ["t7"]


# Waiting


def parked(fetch, wait_s=30.0):
    """Park a fetch that answers with the sizes and errors it found."""

    def respond(found):
        yield from ()
        return SimpleNamespace(sizes=sizes(found), errors=errors(found))

    return ParkedFetch(fetch, wait_s, respond, ParkedFetches()).future


def test_a_parked_fetch_is_woken_by_an_append():
    async def scenario():
        kit = Kit("t")
        fetch = kit.fetch(once(), {"t": (0, FAR)})
        assert not finished(fetch.look())[1]
        waiting = parked(fetch)
        kit.append("t", sized_batch(200))
        assert (await waiting).sizes == {"t": 200}

    asyncio.run(scenario())


def test_the_next_fetch_of_a_session_may_be_parked_as_the_last_one_is_answered():
    """Its connection handles it within the same turn of the loop, and it must not be forgotten."""

    async def scenario():
        kit = Kit("t")
        session = kit.session()
        first = kit.fetch(session, {"t": (0, FAR)})
        finished(first.look())
        waiting = parked(first)
        parked_next = []

        def park_next(_):
            following = kit.fetch(session, {"t": (1, FAR)})
            finished(following.look())
            parked_next.append(parked(following))

        waiting.listen(park_next)
        kit.append("t", sized_batch(200))
        await waiting
        kit.append("t", sized_batch(300))
        async with asyncio.timeout(10):
            assert (await parked_next[0]).sizes == {"t": 300}

    asyncio.run(scenario())


def test_a_parked_fetch_waits_on_until_the_minimum_is_there():
    async def scenario():
        kit = Kit("t")
        fetch = kit.fetch(once(), {"t": (0, FAR)}, min_bytes=500)
        finished(fetch.look())
        waiting = parked(fetch)
        for _ in range(2):
            kit.append("t", sized_batch(200))
            for _turn in range(3):
                await asyncio.sleep(0)
            assert not waiting.done()
        kit.append("t", sized_batch(200))
        assert (await waiting).sizes == {"t": 600}

    asyncio.run(scenario())


def test_what_there_is_is_given_when_time_is_up():
    async def scenario():
        kit = Kit("t")
        kit.append("t", sized_batch(200))
        fetch = kit.fetch(once(), {"t": (0, FAR)}, min_bytes=FAR)
        finished(fetch.look())
        assert (await parked(fetch, wait_s=0.0)).sizes == {"t": 200}

    asyncio.run(scenario())


@pytest.mark.patches
def test_many_appends_in_one_turn_wake_a_parked_fetch_once():
    async def scenario():
        kit = Kit("t")
        fetch = kit.fetch(once(), {"t": (0, FAR)}, min_bytes=FAR)
        finished(fetch.look())
        looks = []
        look = fetch.look

        class Counting:
            session = fetch.session
            listen = fetch.listen
            pauses = False

            def look(self):
                looks.append(1)
                return look()

        waiting = parked(Counting())
        for _ in range(5):
            kit.append("t", sized_batch(200))
        for _turn in range(3):
            await asyncio.sleep(0)
        assert looks == [1]
        waiting.cancel()

    asyncio.run(scenario())


def test_a_topic_that_is_deleted_answers_those_who_wait_for_it():
    async def scenario():
        kit = Kit("t")
        fetch = kit.fetch(once(), {"t": (0, FAR)})
        finished(fetch.look())
        waiting = parked(fetch)
        kit.partitions.remove(PartitionKey("t", 0))
        assert (await waiting).errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    asyncio.run(scenario())


@pytest.mark.parametrize("kept", [False, True])
def test_a_client_that_leaves_takes_its_parked_fetch_along(kept):
    async def scenario():
        kit = Kit("t")
        session = kit.session() if kept else once()
        fetch = kit.fetch(session, {"t": (0, FAR)})
        finished(fetch.look())
        waiting = parked(fetch)
        waiting.cancel()
        await asyncio.sleep(0)
        assert session.wake is None
        assert bool(session.readers) is kept, "only a session outlives its request"
        kit.append("t", sized_batch(200))
        await asyncio.sleep(0)

    asyncio.run(scenario())


@pytest.mark.patches
def test_a_parked_fetch_is_answered_even_if_looking_fails():
    async def scenario():
        kit = Kit("t")
        fetch = kit.fetch(once(), {"t": (0, FAR)})
        finished(fetch.look())

        class Broken:
            session = fetch.session
            listen = fetch.listen
            pauses = False

            def look(self):
                raise RuntimeError("a bug")

        waiting = parked(Broken())
        kit.append("t", sized_batch(200))
        with pytest.raises(RuntimeError, match="a bug"):
            await waiting

    asyncio.run(scenario())


# The answer


@pytest.mark.patches
def test_partitions_of_one_topic_that_stand_together_are_one_group():
    def fetched(topic):
        return SimpleNamespace(reader=SimpleNamespace(topic=topic))

    order = [fetched("a"), fetched("a"), fetched("b"), fetched("a")]
    assert [(topic, len(group)) for topic, group in by_topic(order)] == [
        ("a", 2),
        ("b", 1),
        ("a", 1),
    ]


def test_reading_takes_no_bytes_into_memory():
    kit = Kit("t")
    append_values(kit["t"].log, b"x" * 1000)
    kit["t"].advance()
    (fetched,), _ = finished(kit.fetch(once(), {"t": (0, FAR)}).look())
    assert sum(region.size for region in fetched.regions) == fetched.size
