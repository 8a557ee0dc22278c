"""The runtime appends, replays, waits for commits, answers and lets go, in that order."""

from __future__ import annotations

import asyncio

import pytest

from kits.coordinator_kit import Bench, MapShard, MemoryLog, batches, failed, run
from moldau.coordination.answers import combined
from moldau.coordination.outcome import (
    NOTHING,
    Outcome,
    ProducerIdentity,
    Reply,
    StateRecord,
    Timer,
    TimerCancelled,
)
from moldau.coordination.runtime import no_effects
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.records.compression import Codec

PRODUCER = ProducerIdentity(7, 3)


class TestAnswering:
    def test_a_request_is_answered_at_once_where_the_commit_is(self):
        async def work():
            bench = await Bench().begin()
            assert bench.put(b"a", b"1") == ("put", b"1")
            assert bench.get(b"a") == ("got", b"1")
            assert bench.stored() == [(b"a", b"1")]
            assert not len(bench.log.delayed)

        run(work)

    def test_a_reply_waits_until_its_records_are_committed(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            first, second = bench.put(b"a", b"1"), bench.put(b"b", b"2")
            await bench.settle()
            assert not first.done()
            bench.log.commit(1)
            assert first.result() == ("put", b"1")
            assert not second.done()
            bench.log.commit()
            assert second.result() == ("put", b"2")
            assert not len(bench.log.delayed)

        run(work)

    def test_what_is_read_waits_for_the_records_it_was_read_from(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            bench.put(b"a", b"1")
            read = bench.get(b"a")
            assert not read.done()
            assert bench.get(b"a", at_once=True) == ("got", b"1")
            bench.log.commit()
            assert read.result() == ("got", b"1")

        run(work)

    def test_state_that_was_loaded_but_not_committed_is_not_told(self):
        async def work():
            log = MemoryLog(commits=False)
            bench = await Bench(log).begin()
            bench.put(b"a", b"1")
            after = await Bench(log.moved_to(1, commits=False)).begin()
            read = after.get(b"a")
            assert not read.done()
            after.log.commit()
            assert read.result() == ("got", b"1")

        run(work)

    def test_a_parked_request_is_answered_by_a_later_outcome(self):
        async def work():
            bench = await Bench().begin()
            parked = bench.park()
            assert not parked.done()
            bench.do(Outcome(replies=[Reply(bench.shard.parked[0], "at last")]))
            assert parked.result() == "at last"

        run(work)

    def test_a_client_that_left_is_no_matter(self):
        async def work():
            bench = await Bench().begin()
            parked = bench.park()
            parked.cancel()
            bench.do(Outcome(replies=[Reply(bench.shard.parked[0], "nobody hears")]))
            assert parked.cancelled()

        run(work)

    def test_only_the_first_reply_to_a_ticket_counts(self):
        async def work():
            bench = await Bench().begin()
            parked = bench.park()
            ticket = bench.shard.parked[0]
            bench.do(Outcome(replies=[Reply(ticket, 1), Reply(ticket, 2)]))
            assert parked.result() == 1

        run(work)

    def test_a_commit_that_takes_too_long_is_told_and_still_counts(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False), commit_timeout_s=0.001).begin()
            answer = bench.put(b"a", b"1", effects=["later"])
            assert await answer == ("failed", "COORDINATOR_NOT_AVAILABLE")
            assert bench.effects == []
            bench.log.commit()
            assert bench.effects == ["later"]

        run(work)

    def test_the_next_commit_that_is_late_is_told_at_its_own_time(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False), commit_timeout_s=0.002).begin()
            first = bench.put(b"a", b"1")
            await asyncio.sleep(0.001)
            second = bench.put(b"b", b"2")
            assert await first == await second == ("failed", "COORDINATOR_NOT_AVAILABLE")

        run(work)

    def test_every_shard_is_asked_in_the_order_of_partitions(self):
        async def work():
            bench = Bench()
            bench.runtime.partition_count = 3
            for index in (2, 0, 1):
                bench.runtime.lead(MemoryLog(index))
            asked = await bench.runtime.call_all(
                lambda shard, ticket, now: Outcome(replies=[Reply(ticket, shard.index)]), failed
            )
            assert asked == [0, 1, 2]
            assert bench.runtime.led == (2, 0, 1)

        run(work)

    def test_when_every_shard_is_asked_others_are_served_in_between(self):
        async def work():
            bench = Bench()
            for index in (0, 1):
                bench.runtime.lead(MemoryLog(index))
            asked = []

            def ask(shard, ticket, now):
                asked.append(shard.index)
                return Outcome(replies=[Reply(ticket, shard.index)])

            asyncio.get_running_loop().call_soon(asked.append, "somebody else")
            await bench.runtime.call_all(ask, failed)
            assert asked == [0, "somebody else", 1]

        run(work)

    def test_a_shard_that_moves_away_while_all_are_asked_says_so(self):
        async def work():
            bench = Bench()
            for index in (0, 1):
                bench.runtime.lead(MemoryLog(index))
            asyncio.get_running_loop().call_soon(bench.runtime.resign, 1)
            asked = await bench.runtime.call_all(
                lambda shard, ticket, now: Outcome(replies=[Reply(ticket, shard.index)]), failed
            )
            assert asked == [0, ("failed", "NOT_COORDINATOR")]

        run(work)


class TestCombining:
    def test_answers_that_are_there_are_combined_at_once(self):
        assert combined([1, 2], sum) == 3

    def test_answers_that_come_later_are_combined_when_all_are_there(self):
        async def work():
            loop = asyncio.get_running_loop()
            first, second = loop.create_future(), loop.create_future()
            result = combined([first, 5, second], list)
            second.set_result(7)
            await asyncio.sleep(0)
            assert not result.done()
            first.set_result(3)
            assert await result == [3, 5, 7]

        run(work)

    def test_a_part_that_fails_fails_the_whole(self):
        async def work():
            waiting = asyncio.get_running_loop().create_future()
            result = combined([waiting, 1], list)
            waiting.set_exception(ApiError(ErrorCode.NOT_COORDINATOR))
            with pytest.raises(ApiError):
                await result

        run(work)

    def test_parts_that_cannot_be_combined_fail_the_whole(self):
        async def work():
            waiting = asyncio.get_running_loop().create_future()
            result = combined([waiting, "a"], sum)
            waiting.set_result(1)
            with pytest.raises(TypeError):
                await result

        run(work)

    def test_a_part_that_is_cancelled_cancels_the_whole(self):
        async def work():
            waiting = asyncio.get_running_loop().create_future()
            result = combined([waiting, 1], list)
            waiting.cancel()
            await asyncio.sleep(0)
            assert result.cancelled()

        run(work)

    def test_leaving_gives_up_what_is_still_to_come(self):
        async def work():
            waiting = asyncio.get_running_loop().create_future()
            result = combined([waiting, 1], list)
            result.cancel()
            await asyncio.sleep(0)
            assert waiting.cancelled()

        run(work)


class TestOutcomes:
    def test_what_follows_is_asked_for_when_the_records_are_committed(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            bench.put(b"a", b"1", then=lambda now: Outcome(records=[StateRecord(b"b", b"2")]))
            assert bench.stored() == [(b"a", b"1")]
            bench.log.commit()
            assert bench.stored() == [(b"a", b"1"), (b"b", b"2")]
            assert bench.shard.map == {b"a": b"1", b"b": b"2"}

        run(work)

    def test_a_long_chain_of_outcomes_is_no_deep_one(self):
        async def work():
            bench = await Bench().begin()

            def next_one(left):
                then = (lambda now: next_one(left - 1)) if left else None
                return Outcome(records=[StateRecord(b"n", b"%d" % left)], then=then)

            bench.do(next_one(3000))
            assert bench.shard.map == {b"n": b"0"}

        run(work)

    def test_many_that_wait_for_one_commit_are_no_deep_chain_either(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            for number in range(3000):
                bench.put(b"n", b"1", then=lambda now, number=number: Outcome(effects=[number]))
            bench.log.commit()
            assert bench.effects == list(range(3000))

        run(work)

    def test_effects_are_handed_out_after_the_commit_only(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            bench.put(b"a", b"1", effects=["marker"])
            assert bench.effects == []
            bench.log.commit()
            assert bench.effects == ["marker"]

        run(work)

    def test_a_refused_append_changes_nothing_and_asks_what_happens_instead(self):
        async def work():
            bench = await Bench().begin()
            bench.log.refusal = ErrorCode.MESSAGE_TOO_LARGE
            parked = bench.park()
            ticket = bench.shard.parked[0]
            instead = lambda code, now: Outcome(replies=[Reply(ticket, code)])  # noqa: E731
            bench.do(
                Outcome(
                    records=[StateRecord(b"a", b"1")],
                    replies=[Reply(ticket, "never")],
                    timers=[Timer("t", 0)],
                    effects=["never"],
                    refused=instead,
                )
            )
            assert parked.result() is ErrorCode.MESSAGE_TOO_LARGE
            await bench.settle()
            assert (bench.shard.map, bench.shard.fired, bench.effects) == ({}, [], [])

        run(work)

    @pytest.mark.parametrize(
        ("code", "told"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
            (ErrorCode.KAFKA_STORAGE_ERROR, "NOT_COORDINATOR"),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, "NOT_COORDINATOR"),
            (ErrorCode.RECORD_LIST_TOO_LARGE, "UNKNOWN_SERVER_ERROR"),
            (ErrorCode.INVALID_PRODUCER_EPOCH, "INVALID_PRODUCER_EPOCH"),
        ],
    )
    def test_without_an_instead_the_client_is_told_what_a_refusal_means(self, code, told):
        async def work():
            bench = await Bench().begin()
            bench.log.refusal = code
            assert bench.put(b"a", b"1") == ("failed", told)
            bench.log.refusal = None
            assert bench.get(b"a") == ("got", None)

        run(work)

    def test_a_refusal_that_ends_the_shard_asks_it_nothing_any_more(self):
        """A disk that fails takes its shards away in the middle of the append that found it out."""

        async def work():
            bench = await Bench().begin()
            asked = []

            def fail(batch, header):
                bench.runtime.resign(0)
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)

            bench.log.append = fail
            told = bench.put(b"a", b"1", refused=lambda code, now: asked.append(code))
            assert told == ("failed", "NOT_COORDINATOR")
            assert bench.shard.has_resigned
            assert asked == []

        run(work)

    def test_records_of_a_transaction_are_written_as_part_of_it(self):
        async def work():
            bench = await Bench().begin()
            bench.put(b"a", b"1", producer=PRODUCER)
            header = parse_header(bench.log.batches[0][1])
            assert header.transactional
            assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
            assert bench.get(b"a") == ("got", None)
            bench.runtime.transaction_ended(0, PRODUCER, committed=True)
            assert bench.get(b"a") == ("got", b"1")

        run(work)

    def test_a_read_after_a_marker_waits_for_the_marker(self):
        async def work():
            bench = await Bench().begin()
            bench.put(b"a", b"1", producer=PRODUCER)
            bench.log.commits = False
            bench.log.log_end_offset += 1
            bench.runtime.transaction_ended(0, PRODUCER, committed=True)
            read = bench.get(b"a")
            assert not read.done()
            bench.log.commit()
            assert read.result() == ("got", b"1")

        run(work)

    def test_the_codec_of_the_topic_is_used(self):
        async def work():
            bench = await Bench(codec=Codec.GZIP).begin()
            bench.put(b"a", b"1" * 500)
            assert parse_header(bench.log.batches[0][1]).codec is Codec.GZIP
            assert bench.stored() == [(b"a", b"1" * 500)]

        run(work)

    def test_an_effect_that_calls_back_at_once_is_a_bug_that_shows(self, caplog):
        async def work():
            def perform(effect):
                bench.do(NOTHING)

            bench = await Bench(perform=perform).begin()
            bench.put(b"a", b"1", effects=["loop"])

        run(work)
        assert "an outcome in the middle of another" in caplog.text

    def test_outcomes_are_replayed_in_the_order_of_the_log_when_an_append_moves_the_commit(self):
        """An in-sync set that shrinks to the leader commits in the middle of an append."""

        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            follow = Outcome(records=[StateRecord(b"a", b"third")])
            bench.put(b"a", b"first", then=lambda now: follow)
            bench.log.commits = True
            bench.put(b"a", b"second")
            assert [value for _, value in bench.stored()] == [b"first", b"second", b"third"]
            assert bench.shard.map == {b"a": b"third"}

        run(work)


class TestWritingAtOnce:
    """The fast path of requests that come again and again."""

    def test_a_sealed_batch_is_appended_and_replayed_and_what_follows_sees_it(self):
        async def work():
            bench = await Bench().begin()
            assert bench.write_at_once(b"a", b"1")
            assert bench.get(b"a") == ("got", b"1")
            assert bench.stored() == [(b"a", b"1")]

        run(work)

    def test_a_shard_that_decides_against_it_leaves_everything_as_it_was(self):
        async def work():
            bench = await Bench().begin()
            host = bench.runtime.host_for("k")
            assert not host.write_at_once(lambda *_: None, MapShard.replay_again, None, 0.0)
            assert bench.stored() == []

        run(work)

    @pytest.mark.parametrize(
        ("log", "settings"),
        [(MemoryLog(commits=False), {}), (MemoryLog(), {"codec": Codec.GZIP})],
    )
    def test_what_must_wait_or_be_compressed_is_not_written(self, log, settings):
        async def work():
            bench = await Bench(log, **settings).begin()
            assert not bench.write_at_once(b"a", b"1")
            assert bench.stored() == []

        run(work)

    def test_nobody_passes_those_who_wait(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            waiting = bench.put(b"a", b"1")
            bench.log.commits = True
            assert not bench.write_at_once(b"a", b"2")
            bench.log.commit()
            assert await waiting == ("put", b"1")
            assert bench.write_at_once(b"a", b"2")

        run(work)

    def test_a_shard_that_loads_or_is_not_here_writes_nothing(self):
        async def work():
            log = MemoryLog(batches=await batches((b"a", b"1")))
            bench = Bench(log)
            assert not bench.write_at_once(b"a", b"2")
            bench.runtime.lead(log)
            assert not bench.write_at_once(b"a", b"2")
            await bench.settle()
            assert bench.write_at_once(b"a", b"2")

        run(work)

    def test_a_log_that_refuses_changes_nothing(self):
        async def work():
            bench = await Bench().begin()
            bench.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
            assert not bench.write_at_once(b"a", b"1")
            bench.log.refusal = None
            assert bench.get(b"a") == ("got", None)

        run(work)

    def test_a_bug_while_replaying_ends_the_shard(self, caplog):
        async def work():
            bench = await Bench().begin()
            waiting = bench.park()
            assert not bench.write_at_once(b"a", b"1", bug="replaying")
            assert await waiting == ("failed", "COORDINATOR_NOT_AVAILABLE")
            assert bench.get(b"a") == ("failed", "COORDINATOR_LOAD_IN_PROGRESS")

        run(work)
        assert "has a bug" in caplog.text

    def test_within_an_outcome_nothing_is_written(self):
        async def work():
            told = []
            bench = await Bench(
                perform=lambda _: told.append(bench.write_at_once(b"b", b"2"))
            ).begin()
            bench.do(Outcome(effects=["one"]))
            assert told == [False]

        run(work)


class TestTimers:
    def test_a_timer_fires_once_and_its_outcome_is_carried_out(self):
        async def work():
            bench = await Bench().begin()
            bench.do(Outcome(timers=[Timer("t", 0)]))
            await bench.shard.heard.wait()
            assert bench.shard.fired == ["t"]
            assert bench.shard.map == {b"fired": b"t"}

        run(work)

    def test_a_timer_of_the_same_key_replaces_the_first_and_one_cancelled_never_fires(self):
        async def work():
            bench = await Bench().begin()
            bench.do(Outcome(timers=[Timer("t", 0), Timer("t", 3600), Timer("u", 0)]))
            bench.do(Outcome(timers=[TimerCancelled("u"), TimerCancelled("nobody")]))
            bench.do(Outcome(timers=[Timer("last", 0.001)]))
            await bench.shard.heard.wait()
            assert bench.shard.fired == ["last"]

        run(work)

    def test_no_timer_of_a_shard_outlives_it(self):
        async def work():
            bench = await Bench().begin()
            shard = bench.shard
            bench.do(Outcome(timers=[Timer("t", 0)]))
            await bench.runtime.close()
            await bench.settle()
            assert shard.fired == []

        run(work)


class TestLettingGo:
    def test_whoever_waits_is_told_when_the_partition_moves(self):
        async def work():
            bench = await Bench(MemoryLog(commits=False)).begin()
            parked, held = bench.park(), bench.put(b"a", b"1")
            bench.runtime.resign(0)
            assert parked.result() == held.result() == ("failed", "NOT_COORDINATOR")
            assert bench.shard.has_resigned
            assert bench.get(b"a") == ("failed", "NOT_COORDINATOR")
            assert not len(bench.log.delayed)
            bench.log.commit()

        run(work)

    def test_a_partition_led_in_a_new_epoch_is_loaded_anew(self):
        async def work():
            bench = await Bench().begin()
            bench.put(b"a", b"1")
            bench.log = bench.log.moved_to(1)
            await bench.begin()
            assert [shard.leader_epoch for shard in bench.shards] == [0, 1]
            assert bench.get(b"a") == ("got", b"1")
            bench.runtime.lead(bench.log)
            assert len(bench.shards) == 2

        run(work)

    def test_events_for_a_shard_that_is_not_here_or_not_available_are_dropped(self):
        async def work():
            bench = Bench(MemoryLog(batches=await batches((b"a", b"1"))))
            bench.log.unreadable = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
            await bench.begin()
            assert not bench.runtime.holds(0)
            end = bench.log.log_end_offset
            for _ in range(2):
                bench.do(Outcome(records=[StateRecord(b"a", b"1")]))
                bench.runtime.transaction_ended(0, PRODUCER, committed=True)
                bench.runtime.resign(0)
            assert bench.log.log_end_offset == end

        run(work)

    def test_an_effect_that_nobody_carries_out_is_a_bug_that_shows(self, caplog):
        async def work():
            bench = await Bench(perform=no_effects).begin()
            bench.put(b"a", b"1", effects=["marker"])

        run(work)
        assert "nobody carries out 'marker'" in caplog.text

    def test_a_disk_that_fails_within_an_append_ends_the_shard_without_harm(self):
        async def work():
            bench = await Bench().begin()
            append = bench.log.append

            def fail(batch, header):
                bench.runtime.resign(0)
                bench.log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
                append(batch, header)

            bench.log.append = fail
            assert bench.put(b"a", b"1", timers=[Timer("t", 0)]) == ("failed", "NOT_COORDINATOR")

        run(work)

    def test_closing_ends_loads_under_way(self):
        async def work():
            bench = Bench(MemoryLog(batches=await batches((b"a", b"1"))))
            bench.runtime.lead(bench.log)
            await bench.runtime.close()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert bench.get(b"a") == ("failed", "NOT_COORDINATOR")

        run(work)
