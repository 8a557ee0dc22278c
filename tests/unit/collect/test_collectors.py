"""The collectors with their surroundings, in one process: a broker that goes and comes back."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import threading

import pytest

from kafka_harness.waiting import eventually
from moldau.base.clock import SystemClock
from moldau.client.errors import NoBrokerReachable
from moldau.client.producer import AsyncProducer
from moldau.collect.complaints import Complaints
from moldau.collect.files import FileCollector, Labels
from moldau.collect.framing import Framing, Piece
from moldau.collect.machine import SPARE_COUNT, MachineSources
from moldau.collect.metrics.access_logs import COMBINED, AccessSamples, access_pattern
from moldau.collect.metrics.collector import AccessLog, Measured, MetricsCollector
from moldau.collect.metrics.host import ProcessSamples
from moldau.collect.metrics.readings import HostReading
from moldau.collect.outages import Silence
from moldau.collect.outlet import SETTINGS, connect
from moldau.collect.positions import Positions
from moldau.collect.state import StateFile
from moldau.collect.wanted import WantedFiles
from moldau.storage.disk import Disk
from moldau.testing import TestBroker

pytestmark = pytest.mark.process  # they wait for real time

TOPIC = "logs"


@pytest.fixture(scope="module")
def broker():
    with TestBroker() as running:
        yield running


async def until(condition):
    while not condition():  # noqa: ASYNC110 - what is waited for knows nothing of events
        await asyncio.sleep(0.02)


class Running:
    """A collector of files in this process."""

    def __init__(self, broker, tmp_path, topic, *patterns, key="path", **wanted):
        self.said = []
        self.state = StateFile(Disk(), str(tmp_path / "state.json"))
        self.producer = AsyncProducer(
            broker.bootstrap_servers, **{**SETTINGS, "linger.ms": 0, "max.block.ms": 500}
        )
        usual = {"poll_max_s": 0.1, "scan_s": 0.1, "rotated_wait_s": 0.3}
        self.complaints = Complaints(self.said.append)
        self.collector = FileCollector(
            WantedFiles(
                [str(pattern) for pattern in patterns], Framing(1000), **{**usual, **wanted}
            ),
            Labels(topic, "web-1", key, (("env", b"test"),)),
            self.producer,
            MachineSources(),
            self.state,
            SystemClock(),
            self.complaints,
        )
        self.stop = asyncio.Event()

    async def run(self, *, once=True):
        try:
            await connect(self.producer, self.complaints)
            await self.collector.run(self.stop, once=once, grace_s=20)
        finally:
            await self.producer.close(timeout=0)
            self.state.close()


def test_records_have_the_bytes_the_key_and_the_headers_of_their_lines(broker, tmp_path):
    path = tmp_path / "a\udcff.log"
    path.write_bytes(b"\xff one\n" + b"x" * 2000 + b"\nrest")
    asyncio.run(Running(broker, tmp_path, "bytes", path).run())
    one, cut = broker.records("bytes")
    name = str(path).encode(errors="surrogateescape")
    assert (one.key, one.value) == (name, b"\xff one")
    assert dict(one.headers) == {
        "host": b"web-1", "path": name, "position": b"0", "env": b"test",
    }  # fmt: skip
    assert (cut.value, dict(cut.headers)["size"]) == (b"x" * 1000, b"2001")


@pytest.mark.parametrize(("key", "expected"), [("host", b"web-1"), ("none", None)])
def test_the_key_may_be_another_or_none(broker, tmp_path, key, expected):
    (tmp_path / "a.log").write_bytes(b"one\n")
    asyncio.run(Running(broker, tmp_path, f"key-{key}", tmp_path / "*.log", key=key).run())
    (record,) = broker.records(f"key-{key}")
    assert record.key == expected


def test_a_host_may_have_a_name_that_is_no_utf_8():
    sent = []

    class Recording:
        def send(self, *_arguments, headers):
            sent.extend(headers)

    Labels(TOPIC, "web-\udcff").sender(Recording())("/a.log", Piece(b"one", 0, 4))
    assert ("host", b"web-\xff") in sent


def test_a_second_run_sends_what_is_new(broker, tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\n")
    asyncio.run(Running(broker, tmp_path, "again", path).run())
    asyncio.run(Running(broker, tmp_path, "again", path).run())
    with path.open("ab") as file:
        file.write(b"three\n")
    asyncio.run(Running(broker, tmp_path, "again", path).run())
    assert [record.value for record in broker.records("again")] == [b"one", b"two", b"three"]


def test_a_damaged_state_file_is_said_and_everything_is_read_again(broker, tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    (tmp_path / "state.json").write_bytes(b"{")
    running = Running(broker, tmp_path, "damaged", path)
    asyncio.run(running.run())
    assert "is damaged" in running.said[0]
    assert len(broker.records("damaged")) == 1


def test_directories_and_pipes_that_are_named_are_said_and_those_that_match_are_passed(
    broker, tmp_path
):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "inner").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "a.log").write_bytes(b"one\n")
    running = Running(broker, tmp_path, "kinds", folder, folder / "pipe", folder / "*")
    asyncio.run(running.run())
    assert running.said == [
        f"cannot read {folder}: Is a directory",
        f"cannot read {folder / 'pipe'}: not a plain file",
    ]
    assert len(broker.records("kinds")) == 1


def test_files_leave_descriptors_to_brokers_and_positions(tmp_path, monkeypatch):
    path = tmp_path / "a.log"
    path.touch()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4_096))
    taken = [os.dup(0)]
    while taken[-1] < 255 - SPARE_COUNT:
        taken.append(os.dup(0))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            MachineSources().open(str(path))
    finally:
        for descriptor in taken:
            os.close(descriptor)
    MachineSources().open(str(path)).close()


def test_the_folder_where_wildcards_begin_is_looked_at(tmp_path):
    (tmp_path / "file").touch()
    sources = MachineSources()
    for pattern in ("*.log", f"{tmp_path}/*/x.log", f"{tmp_path}/none/*.log", f"{tmp_path}/file"):
        sources.check(pattern)
    with pytest.raises(NotADirectoryError):
        sources.check(f"{tmp_path}/file/*/x.log")


def test_a_state_file_that_cannot_be_written_is_said_and_collecting_goes_on(
    broker, tmp_path, monkeypatch
):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    running = Running(broker, tmp_path, "full", path)

    def refuse(_entries):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(running.state, "save", refuse)
    asyncio.run(running.run())
    assert running.said == [f"cannot write {running.state.path}: No space left on device"]
    assert len(broker.records("full")) == 1


def test_positions_that_could_not_be_written_when_it_was_told_to_end_are_said(
    tmp_path, monkeypatch
):
    said, printed = [], []
    state = StateFile(Disk(), str(tmp_path / "state.json"))
    begun, may_end = threading.Event(), threading.Event()

    def refuse(_entries):
        begun.set()
        may_end.wait(30)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state, "save", refuse)

    async def story():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: printed.append(context))
        saving = asyncio.create_task(Positions(state, Complaints(said.append)).save([]))
        await asyncio.to_thread(begun.wait, 30)
        saving.cancel()
        await asyncio.sleep(0)
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await saving

    asyncio.run(story())
    state.close()
    assert said == [f"cannot write {state.path}: No space left on device"]
    assert printed == []


def test_a_broker_that_goes_and_comes_back_costs_no_line_and_repeats_none(tmp_path):
    path = tmp_path / "a.log"

    async def story(broker, running):
        work = asyncio.create_task(running.run(once=False))
        written = 0
        for life in range(3):
            with path.open("ab") as file:
                for _ in range(500):
                    file.write(b"%d\n" % written)
                    written += 1
            if life % 2 == 0:
                await until(lambda goal=written: running.collector.tally.delivered_count == goal)
            await asyncio.to_thread(broker.kill)
            with path.open("ab") as file:
                file.write(b"%d\n" % written)
                written += 1
            await asyncio.sleep(0.1)
            await asyncio.to_thread(broker.start)
        await until(lambda: running.collector.tally.delivered_count == written)
        running.stop.set()
        await work
        return written

    with TestBroker(topics=[TOPIC]) as broker:
        running = Running(broker, tmp_path, TOPIC, path)
        written = asyncio.run(story(broker, running))
        values = [record.value for record in broker.records(TOPIC)]
    assert values == [b"%d" % number for number in range(written)]


def test_a_collector_waits_for_a_broker_that_is_not_there_yet_and_says_so(tmp_path):
    (tmp_path / "a.log").write_bytes(b"one\n")

    async def story(broker, running):
        work = asyncio.create_task(running.run())
        await until(lambda: running.said)
        await asyncio.to_thread(broker.start)
        await work

    with TestBroker() as broker:
        running = Running(broker, tmp_path, TOPIC, tmp_path / "*.log")
        broker.kill()
        asyncio.run(story(broker, running))
        assert [record.value for record in broker.records(TOPIC)] == [b"one"]
    assert "waiting for a broker" in running.said[0]
    assert running.said[-1] == "a broker has been reached"


def test_a_topic_that_is_not_there_is_said_and_waited_for(tmp_path):
    (tmp_path / "a.log").write_bytes(b"one\n")

    async def story(broker, running):
        work = asyncio.create_task(running.run())
        await until(lambda: running.said)
        await asyncio.to_thread(broker.create_topic, TOPIC)
        await work

    with TestBroker(settings={"auto.create.topics.enable": False}) as broker:
        running = Running(broker, tmp_path, TOPIC, tmp_path / "*.log")
        asyncio.run(story(broker, running))
        assert [record.value for record in broker.records(TOPIC)] == [b"one"]
    assert "Create the topic first" in running.said[0]


def test_what_waiting_does_not_help_against_is_raised_at_once():
    class Refusing:
        async def start(self):
            error = NoBrokerReachable("refused")
            error.retriable = False
            raise error

    with pytest.raises(NoBrokerReachable):
        asyncio.run(connect(Refusing(), Complaints(print)))


# Outages


def test_an_outage_is_said_once_and_its_end_once():
    silence = Silence(5.0)
    assert silence.observe(0.0, 0, is_waiting=True) is None
    assert silence.observe(4.0, 0, is_waiting=True) is None
    assert "nothing has been acknowledged for 6 s" in silence.observe(6.0, 0, is_waiting=True)
    assert silence.observe(60.0, 0, is_waiting=True) is None
    assert silence.observe(61.0, 3, is_waiting=True) == "records get through again, after 61 s"
    assert silence.observe(65.0, 3, is_waiting=True) is None
    assert silence.observe(67.0, 3, is_waiting=True) is not None


def test_nothing_on_its_way_is_no_outage():
    silence = Silence(5.0)
    for second in range(100):
        assert silence.observe(float(second), 7, is_waiting=second % 4 == 0) is None


# Measurements


def test_requests_of_an_access_log_are_sent_as_samples_from_its_end_on(broker, tmp_path):
    path = tmp_path / "access.log"
    path.write_bytes(b'"GET / HTTP/1.1" 500 1 "-" "-" 9.0\n')
    said = []
    samples = AccessSamples("shop", access_pattern(COMBINED), 1_000_000)
    complaints = Complaints(said.append)
    log = AccessLog([str(path)], samples, MachineSources(), complaints)

    async def story():
        producer = AsyncProducer(broker.bootstrap_servers, **SETTINGS)
        await connect(producer, complaints)
        collector = MetricsCollector(
            "metrics", "web-1", Measured(access_logs=[log]), producer, SystemClock(), complaints
        )
        stop = asyncio.Event()
        work = asyncio.create_task(collector.run(stop, interval_ms=200, rounds=None, grace_s=20))
        await until(lambda: collector.delivered_count)
        with path.open("ab") as file:
            file.write(b'"GET / HTTP/1.1" 200 1 "-" "-" 0.5\n')
        path.rename(tmp_path / "access.log.1")
        path.write_bytes(b'"GET / HTTP/1.1" 404 1 "-" "-" 1.5\n')

        def request_count():
            told = [json.loads(record.value) for record in broker.records("metrics")]
            return sum(one["value"] for one in told if one["metric"] == "http.requests")

        await asyncio.to_thread(eventually, lambda: request_count() == 2, "both requests")
        stop.set()
        await work
        await producer.close()

    asyncio.run(story())
    records = broker.records("metrics")
    told = [json.loads(record.value) for record in records]
    assert {record.key for record in records} == {b"web-1"}
    assert {(one["host"], one["service"]) for one in told} == {("web-1", "shop")}
    assert {one["target"] for one in told if one["metric"] == "http.responses"} == {"2xx", "4xx"}
    assert max(one["value"] for one in told if one["metric"] == "http.time.max") == 1.5
    assert all(record.timestamp_ms % 200 == 0 for record in records)
    assert said == []


class SetBack(SystemClock):
    """A clock that is an hour back from some moment on."""

    back_ms = 0

    def wall_ms(self):
        return SystemClock.wall_ms() - self.back_ms


def test_samples_go_on_when_the_clock_is_set_back(broker, tmp_path):
    (tmp_path / "access.log").touch()
    said = []
    complaints = Complaints(said.append)
    samples = AccessSamples("shop", access_pattern(COMBINED), 1_000_000)
    log = AccessLog([str(tmp_path / "access.log")], samples, MachineSources(), complaints)
    clock = SetBack()

    async def story():
        producer = AsyncProducer(broker.bootstrap_servers, **SETTINGS)
        await connect(producer, complaints)
        collector = MetricsCollector(
            "set-back", "web-1", Measured(access_logs=[log]), producer, clock, complaints
        )
        stop = asyncio.Event()
        work = asyncio.create_task(collector.run(stop, interval_ms=100, rounds=None, grace_s=20))
        await until(lambda: collector.delivered_count)
        clock.back_ms = 3_600_000
        count = collector.delivered_count
        await until(lambda: said and collector.delivered_count > count)
        stop.set()
        await work
        await producer.close()

    asyncio.run(story())
    times = [record.timestamp_ms for record in broker.records("set-back")]
    assert times[-1] < times[0]
    assert said == ["the clock was set back; samples go on by its new time"]


class Refusing:
    """A machine without some of /proc, for a while."""

    refusals = 3

    def host(self):
        if self.refusals:
            self.refusals -= 1
            raise FileNotFoundError(2, "No such file or directory", "/proc/stat")
        return HostReading({"user": 1.0, "idle": 1.0}, 0.5, 100, 50, 0, {}, {})

    def processes(self):
        return []


def test_a_machine_that_cannot_be_measured_is_said_and_requests_are_counted_all_the_same(
    broker, tmp_path
):
    (tmp_path / "access.log").touch()
    said = []
    complaints = Complaints(said.append)
    samples = AccessSamples("shop", access_pattern(COMBINED), 1_000_000)
    log = AccessLog([str(tmp_path / "access.log")], samples, MachineSources(), complaints)
    measured = Measured(Refusing(), access_logs=[log])

    async def story():
        producer = AsyncProducer(broker.bootstrap_servers, **SETTINGS)
        await connect(producer, complaints)
        collector = MetricsCollector(
            "refused", "web-1", measured, producer, SystemClock(), complaints
        )
        await collector.run(asyncio.Event(), interval_ms=100, rounds=3, grace_s=20)
        await producer.close()

    asyncio.run(story())
    told = [json.loads(record.value)["metric"] for record in broker.records("refused")]
    assert (told.count("http.requests"), told.count("load.1m")) == (3, 1)
    assert said == [
        "cannot measure this machine: [Errno 2] No such file or directory: '/proc/stat'",
        "this machine can be measured again",
    ]


def test_this_machine_can_be_measured():
    pytest.importorskip("psutil")
    from moldau.collect.metrics.machine import LocalMachine  # noqa: PLC0415 - it needs psutil

    measured = Measured(LocalMachine(), ProcessSamples(3))
    measured.observe(0.0, 1.0)
    sum(range(3_000_000))
    samples = measured.observe(1.0, 1.0)
    metrics = {one.metric for one in samples}
    assert {"cpu.used", "memory.total", "memory.used", "load.1m", "process.cpu"} <= metrics
    assert all(0 <= one.value <= 1.001 for one in samples if one.unit == "ratio")
