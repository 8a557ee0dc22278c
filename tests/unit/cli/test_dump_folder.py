"""`moldau log dump` takes a folder, and what a topic that is missing advises."""

from __future__ import annotations

from kits.cli_kit import moldau
from moldau import Producer
from moldau.testing import TestBroker


def test_a_folder_stands_for_the_logs_in_it(tmp_path):
    with TestBroker(topics={"t": 2}, folder=tmp_path) as broker:
        with Producer(broker.bootstrap_servers) as producer:
            for partition in range(2):
                producer.send("t", b"v%d" % partition, partition=partition)
        broker.stop()
        whole = moldau("log", "dump", tmp_path, "--print-data-log")
        one = moldau("log", "dump", next(tmp_path.rglob("t-1")), "--print-data-log")
    assert (whole.status, one.status) == (0, 0)
    assert "v0" in whole.out
    assert "v1" in whole.out
    assert "v0" not in one.out
    assert "v1" in one.out


def test_a_folder_without_logs_and_nothing_at_all_are_refused(tmp_path):
    assert f"there is no .log file in {tmp_path}" in moldau("log", "dump", tmp_path).err
    assert "there is no file or folder no-such" in moldau("log", "dump", "no-such").err
    assert "name files or a folder to dump" in moldau("log", "dump").err


def test_who_deletes_a_topic_that_is_not_there_is_not_told_to_create_it():
    with TestBroker() as broker:
        servers = ("-b", broker.bootstrap_servers)
        ran = moldau("topic", "delete", "no-such", "--yes", *servers)
        assert "Nothing was deleted" in ran.err
        assert "Create" not in ran.err
        assert moldau("topic", "delete", "no-such", "--yes", "--if-exists", *servers).status == 0
