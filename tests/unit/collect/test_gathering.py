"""Files that come, grow, move and go, one case after the other; the property tests mix them."""

from __future__ import annotations

import pytest

from kits.collect_kit import Room
from moldau.client.errors import DeliveryTimedOut, RecordTooLarge, TopicAuthorizationFailed
from moldau.collect.framing import Beginnings, Framing
from moldau.collect.tails import POLL_MIN_S

LOG = "/logs/app.log"
FIRST = b"".join(b"first file, line %d\n" % number for number in range(10))
SECOND = b"".join(b"second file, line %d\n" % number for number in range(10))


def lines(*contents):
    return [line for content in contents for line in content.splitlines()]


@pytest.fixture
def room():
    return Room(LOG, rotated_wait_s=60)


def test_lines_go_out_with_their_positions_under_the_path_of_their_file(room):
    room.sources.write(LOG, b"one\ntwo\n")
    room.read_all()
    assert [(one.name, one.piece.position) for one in room.topic.delivered] == [(LOG, 0), (LOG, 4)]


def test_an_unfinished_line_waits_for_its_end(room):
    room.sources.write(LOG, b"one\ntw")
    assert room.read_all() == [b"one"]
    room.sources.write(LOG, b"o\n")
    assert room.read_all() == [b"one", b"two"]


def test_a_file_that_is_not_there_is_waited_for_and_said_once(room):
    room.pass_time()
    room.pass_time()
    assert room.said == [f"{LOG} is not there: waiting for it"]
    room.sources.write(LOG, FIRST)
    assert room.read_all() == lines(FIRST)


def test_a_pattern_that_matches_no_file_is_said_once():
    room = Room("/logs/*.log", "/logs/*.txt")
    room.sources.write("/logs/a.txt", b"a\n")
    room.sources.write("/logs/a.log.gz", b"no\n")
    assert room.read_all() == [b"a"]
    room.pass_time()
    assert room.said == ["no file matches /logs/*.log so far"]
    room.sources.write("/logs/b.log", b"b\n")
    assert room.read_all() == [b"a", b"b"]
    room.sources.remove("/logs/b.log")
    for _ in range(100):
        room.pass_time()
    assert len(room.said) == 1


@pytest.mark.parametrize("pattern", ["/logs/a*", "/logs/a.gz"])
def test_a_pattern_all_of_which_is_excluded_is_said_once(pattern):
    room = Room(pattern)
    room.sources.write("/logs/a.gz", b"no\n")
    assert room.read_all() == []
    room.pass_time()
    assert room.said == [f"all that matches {pattern} is excluded"]


def test_new_files_that_match_are_found():
    room = Room("/logs/*.log")
    room.sources.write("/logs/a.log", b"a\n")
    assert room.read_all() == [b"a"]
    room.sources.write("/logs/b.log", b"b\n")
    room.sources.write("/logs/b.txt", b"no\n")
    room.sources.write("/logs/b.log.gz", b"no\n")
    assert room.read_all() == [b"a", b"b"]


def test_files_that_are_excluded_are_not_read():
    room = Room("/logs/*", excluded=("*.gz", "/logs/secret*"))
    for name in ("a.log", "b.gz", "secret.log"):
        room.sources.write(f"/logs/{name}", name.encode() + b"\n")
    assert room.read_all() == [b"a.log"]


def test_a_file_with_two_names_is_read_once():
    room = Room("/logs/*")
    room.sources.write("/logs/a", FIRST)
    room.sources.files["/logs/link"] = room.sources.files["/logs/a"]
    assert room.read_all() == lines(FIRST)
    room.sources.remove("/logs/a")
    room.sources.write("/logs/link", SECOND)
    assert room.read_all() == lines(FIRST, SECOND)


def test_a_file_that_cannot_be_read_is_said_once_and_the_rest_goes_on():
    room = Room("/logs/*")
    room.sources.write("/logs/a", FIRST)
    room.sources.write("/logs/b", SECOND)
    room.sources.unreadable.add("/logs/a")
    assert room.read_all() == lines(SECOND)
    room.pass_time()
    assert room.said == ["cannot read /logs/a: Permission denied"]
    room.sources.unreadable.clear()
    assert room.read_all() == lines(SECOND, FIRST)


def test_a_folder_that_cannot_be_looked_through_is_said_once():
    room = Room("/logs/*")
    room.sources.unreadable.add("/logs/*")
    assert room.read_all() == []
    room.pass_time()
    assert room.said == ["cannot read what matches /logs/*: Permission denied"]


# Rotation


def test_a_renamed_file_is_read_to_its_end_before_the_one_that_took_its_path(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.sources.write(LOG, b"the last of the first\n")
    room.sources.rename(LOG, LOG + ".1")
    room.sources.write(LOG, SECOND)
    assert room.read_all() == [*lines(FIRST), b"the last of the first", *lines(SECOND)]
    assert {one.name for one in room.topic.delivered} == {LOG}


def test_what_took_a_path_waits_however_much_is_left_of_the_file_before_it(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    much = b"".join(b"more of the first, line %d\n" % number for number in range(30_000))
    room.sources.write(LOG, much)
    room.sources.rename(LOG, LOG + ".1")
    room.sources.write(LOG, SECOND)
    assert room.read_all() == lines(FIRST, much, SECOND)


def test_who_writes_on_to_a_renamed_file_is_heard_until_it_is_quiet(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    renamed = room.sources.files[LOG]
    room.sources.rename(LOG, LOG + ".1")
    room.pass_time(30)
    room.sources.append(renamed, b"late\nand unfinished")
    room.pass_time(30)
    assert room.read_all() == [*lines(FIRST), b"late"]
    assert renamed.handle_count == 1
    room.pass_time(70)
    assert room.read_all() == [*lines(FIRST), b"late", b"and unfinished"]
    assert renamed.handle_count == 0
    assert room.entries() == []


def test_a_deleted_file_is_read_to_its_end(room):
    room.sources.write(LOG, FIRST)
    room.scan()
    room.sources.remove(LOG)
    assert room.read_all() == lines(FIRST)


def test_a_truncated_file_is_read_from_its_beginning(room):
    room.sources.write(LOG, FIRST)
    room.read_all()
    room.sources.truncate(LOG)
    room.sources.write(LOG, b"anew\n")
    assert room.read_all() == [*lines(FIRST), b"anew"]


def test_a_file_truncated_and_grown_past_where_it_was_read_is_found_out(room):
    room.sources.write(LOG, FIRST)
    room.read_all()
    room.sources.truncate(LOG)
    room.sources.write(LOG, SECOND + SECOND)
    assert room.read_all() == lines(FIRST, SECOND, SECOND)


def test_a_file_truncated_and_written_anew_to_the_same_length_is_found_out(room):
    room.sources.write(LOG, FIRST)
    room.read_all()
    room.sources.truncate(LOG)
    room.sources.write(LOG, FIRST[::-1].replace(b"\n", b"", 1) + b"\n")
    assert len(room.read_all()) == 20


def test_what_was_not_read_before_a_truncation_is_read_from_the_copy(room):
    room.sources.write(LOG, FIRST + b"half a li")
    room.read_all()
    room.sources.write(LOG, b"ne\nunread\n")
    room.sources.copy(LOG, LOG + ".1")
    room.sources.truncate(LOG)
    room.sources.write(LOG, SECOND)
    assert room.read_all() == [*lines(FIRST), b"half a line", b"unread", *lines(SECOND)]


def test_half_a_line_that_was_truncated_away_without_a_copy_is_sent_as_it_is(room):
    room.sources.write(LOG, FIRST + b"half a li")
    room.read_all()
    room.sources.truncate(LOG)
    assert room.read_all() == [*lines(FIRST), b"half a li"]


def test_a_copy_that_matches_is_not_read_again_until_it_has_something_of_its_own():
    room = Room(LOG + "*")
    room.sources.write(LOG, FIRST)
    room.read_all()
    room.sources.copy(LOG, LOG + ".backup")
    assert room.read_all() == lines(FIRST)
    room.sources.write(LOG, SECOND)
    assert room.read_all() == lines(FIRST, SECOND)
    room.sources.write(LOG + ".backup", FIRST)
    assert room.read_all() == lines(FIRST, SECOND, FIRST, FIRST)


def test_a_copy_that_is_only_being_made_is_not_taken_for_another_file():
    room = Room(LOG + "*")
    room.sources.write(LOG, FIRST)
    room.read_all()
    room.sources.create(LOG + ".1")
    room.pass_time(1)
    assert not room.gathering.is_at_end
    room.sources.write(LOG + ".1", FIRST[:100])
    room.pass_time(1)
    assert room.gathering.is_at_end
    room.sources.write(LOG + ".1", FIRST[100:])
    room.sources.truncate(LOG)
    assert room.read_all() == lines(FIRST)


def test_a_short_file_that_stays_short_is_no_copy_and_is_read_after_all():
    room = Room(LOG + "*")
    room.sources.write(LOG, FIRST)
    room.sources.write(LOG + ".err", b"oh\n")
    room.pass_time(1)
    room.pass_time(5)
    assert b"oh" not in [one.piece.value for one in room.topic.waiting]
    assert not room.gathering.is_at_end
    assert room.read_all()[-1] == b"oh"


def test_a_copy_whose_original_is_gone_is_read_from_where_that_was_read_to():
    room = Room(LOG + "*", rotated_wait_s=20)
    room.sources.write(LOG, FIRST)
    room.read_all()
    room.sources.copy(LOG, LOG + ".copy")
    room.pass_time()
    room.sources.remove(LOG)
    for _ in range(5):
        room.pass_time()
        room.gathering.settle()
    room.sources.write(LOG + ".copy", SECOND)
    assert room.read_all() == lines(FIRST, SECOND)


def test_short_files_that_begin_alike_are_both_read():
    room = Room(LOG + "*")
    room.sources.write(LOG, b"started\n")
    room.sources.write(LOG + ".2", b"started\n")
    assert room.read_all() == [b"started", b"started"]


# Restarts


def test_a_restart_goes_on_where_the_last_run_was(room):
    room.sources.write(LOG, FIRST + b"unfini")
    room.pass_time()
    room.stop()
    room.sources.write(LOG, b"shed\n" + SECOND)
    room.start()
    assert room.read_all() == [*lines(FIRST), b"unfinished", *lines(SECOND)]


def test_what_was_not_acknowledged_is_sent_again(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.save()
    room.crash()
    assert room.read_all() == lines(FIRST)


def test_what_was_not_acknowledged_before_a_truncation_is_read_again_from_the_copy(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.sources.copy(LOG, LOG + ".1")
    room.sources.truncate(LOG)
    room.sources.write(LOG, SECOND)
    room.pass_time()
    room.save()
    room.crash()
    assert room.read_all() == lines(FIRST, SECOND)


def test_positions_saved_before_the_first_look_are_those_of_the_last_run(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.stop()
    room.start()
    room.save()
    room.crash()
    assert room.read_all() == lines(FIRST)


def test_what_was_rotated_while_nobody_looked_is_read_to_its_end(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.stop()
    room.sources.write(LOG, b"last\n")
    room.sources.rename(LOG, "/logs/app-2026.log")
    room.sources.write(LOG, SECOND)
    room.start()
    assert room.read_all() == [*lines(FIRST), b"last", *lines(SECOND)]


def test_what_was_truncated_while_nobody_looked_is_read_from_its_copy(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.stop()
    room.sources.write(LOG, b"last\n")
    room.sources.copy(LOG, LOG + ".1")
    room.sources.truncate(LOG)
    room.sources.write(LOG, SECOND + SECOND)
    room.start()
    assert room.read_all() == [*lines(FIRST), b"last", *lines(SECOND, SECOND)]


def test_a_file_that_got_the_number_of_one_that_is_gone_is_another_file(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.stop()
    number = room.sources.files[LOG].number
    room.sources.remove(LOG)
    room.sources.write(LOG, SECOND + SECOND)
    assert room.sources.files[LOG].number == number
    room.start()
    assert room.read_all() == lines(FIRST, SECOND, SECOND)
    assert "is another file now" in room.said[-1]


def test_a_stranger_that_got_the_number_of_a_file_nothing_was_read_of_is_left_alone(room):
    room.sources.create(LOG)
    room.pass_time()
    room.stop()
    room.sources.remove(LOG)
    room.sources.write("/logs/secret", FIRST)
    room.start()
    assert room.read_all() == []


def test_a_file_that_got_the_number_of_one_nothing_was_read_of_goes_under_its_own_path():
    room = Room("/logs/*")
    room.sources.create("/logs/a")
    room.pass_time()
    room.stop()
    room.sources.remove("/logs/a")
    room.sources.write("/logs/b", FIRST)
    room.start()
    assert room.read_all() == lines(FIRST)
    assert {one.name for one in room.topic.delivered} == {"/logs/b"}


def test_a_file_that_came_back_to_its_path_just_before_the_end_is_read_on(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.stop()
    room.sources.rename(LOG, "/elsewhere/app.log")
    room.sources.write(LOG, SECOND)
    room.start()
    room.read_all()
    room.sources.rename("/elsewhere/app.log", LOG)
    room.sources.write(LOG, b"more\n")
    room.now += 2
    room.turns()
    room.stop()
    room.sources.write(LOG, b"and more\n")
    room.start()
    assert room.read_all() == [*lines(FIRST, SECOND), b"more", b"and more"]


def test_a_device_that_has_another_number_after_a_restart_has_nothing_read_again():
    room = Room("/logs/*")
    room.sources.write("/logs/a", FIRST)
    room.sources.write("/logs/b", b"short\n")
    room.read_all()
    room.stop()
    room.saved = room.saved.replace(b'"device": 1,', b'"device": 2,')
    room.sources.write("/logs/a", SECOND)
    room.start()
    assert room.read_all() == [*lines(FIRST), b"short", *lines(SECOND)]
    assert room.said == []
    assert {entry.identity.device for entry in room.entries()} == {1}


def test_what_was_known_of_a_missing_disk_is_kept_for_a_week(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.stop()
    content = room.sources.files.pop(LOG)
    room.start()
    room.pass_time()
    room.stop()
    room.start()
    room.pass_time(6 * 86_400)
    room.sources.files[LOG] = content
    room.sources.write(LOG, SECOND)
    assert room.read_all() == lines(FIRST, SECOND)
    room.stop()
    del room.sources.files[LOG]
    room.start()
    room.pass_time()
    assert len(room.entries()) == 1
    room.pass_time(8 * 86_400)
    assert room.entries() == []


def test_from_the_end_means_the_very_first_start_and_the_files_that_were_there():
    room = Room("/logs/*", from_end=True)
    room.sources.write("/logs/a", FIRST + b"half a li")
    assert room.read_all() == []
    room.sources.write("/logs/a", b"ne\n")
    room.sources.write("/logs/b", b"new\n")
    assert sorted(room.read_all()) == [b"half a line", b"new"]
    room.stop()
    room.sources.write("/logs/a", b"more\n")
    room.start()
    assert sorted(room.read_all()) == [b"half a line", b"more", b"new"]


# Records of several lines, and those that are too long


def test_the_last_record_of_several_lines_goes_out_when_nothing_follows():
    framing = Framing(1_000, beginnings=Beginnings.preset("python"))
    room = Room(LOG, framing=framing, lines_wait_s=5)
    room.sources.write(LOG, b"INFO a\n  b\nINFO c\n  d\n")
    room.pass_time(1)
    room.topic.acknowledge()
    assert room.topic.values == [b"INFO a\n  b"]
    room.pass_time(2)
    assert room.topic.waiting == []
    room.pass_time(4)
    room.topic.acknowledge()
    assert room.topic.values == [b"INFO a\n  b", b"INFO c\n  d"]


def test_the_last_record_of_several_lines_goes_out_before_those_of_the_file_that_took_its_path():
    framing = Framing(1_000, beginnings=Beginnings.preset("python"))
    room = Room(LOG, framing=framing, lines_wait_s=5)
    room.sources.write(LOG, b"INFO a\nERROR b\n  trace\n")
    room.pass_time(1)
    room.sources.rename(LOG, f"{LOG}.1")
    room.sources.write(LOG, b"INFO c\nINFO d\n")
    for _ in range(10):
        room.pass_time(1)
        room.topic.acknowledge()
    assert room.read_all() == [b"INFO a", b"ERROR b\n  trace", b"INFO c", b"INFO d"]


@pytest.mark.parametrize("keeps_cut", [True, False])
def test_what_is_too_long_is_counted_and_said_once(keeps_cut):
    room = Room(LOG, framing=Framing(10, keeps_cut))
    room.sources.write(LOG, b"x" * 100 + b"\nshort\n" + b"y" * 100 + b"\n")
    delivered = room.read_all()
    assert delivered == ([b"x" * 10, b"short", b"y" * 10] if keeps_cut else [b"short"])
    tally = room.gathering.tally
    assert (tally.cut_count, tally.skipped_count) == ((2, 0) if keeps_cut else (0, 2))
    (said,) = room.said
    assert said.startswith(f"{LOG}: a record of 101 bytes at position 0 was ")
    room.save()
    room.crash()
    assert room.read_all() == delivered


# Deliveries that fail


def test_what_was_not_delivered_is_sent_again_in_order(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.topic.acknowledge(4)
    room.topic.fail(DeliveryTimedOut("away"))
    assert room.read_all() == lines(FIRST)[:4] + lines(FIRST)
    assert room.said == ["not delivered, sending it again: " + str(DeliveryTimedOut("away"))]


def test_what_was_not_delivered_before_a_truncation_is_sent_again_from_the_copy(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.sources.copy(LOG, LOG + ".1")
    room.sources.truncate(LOG)
    room.sources.write(LOG, SECOND)
    room.topic.fail(DeliveryTimedOut("away"))
    room.gathering.settle()
    assert room.read_all() == lines(FIRST, SECOND)
    assert not [line for line in room.said if "lost" in line]


def test_what_was_not_delivered_before_a_truncation_and_is_nowhere_is_said_to_be_lost(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.sources.truncate(LOG)
    room.sources.write(LOG, SECOND)
    room.topic.fail(DeliveryTimedOut("away"))
    room.gathering.settle()
    assert room.read_all() == lines(SECOND)
    assert "some of it is lost" in room.said[-1]


def test_a_record_that_brokers_never_take_is_left_out_and_counted(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.topic.waiting.pop(3).settle(RecordTooLarge("no"))
    assert room.read_all() == lines(FIRST)[:3] + lines(FIRST)[4:]
    assert room.gathering.tally.refused_count == 1
    assert room.gathering.fatal is None


def test_what_no_repetition_helps_against_ends_it(room):
    room.sources.write(LOG, FIRST)
    room.pass_time()
    room.topic.fail(TopicAuthorizationFailed())
    room.gathering.settle()
    assert isinstance(room.gathering.fatal, TopicAuthorizationFailed)
    assert room.entries()[0].mark.position == 0


def test_a_file_whose_records_failed_is_not_served_twice_as_often(room, monkeypatch):
    room.sources.write(LOG, FIRST)
    for _ in range(3):
        room.pass_time()
        room.topic.fail(DeliveryTimedOut("away"))
        room.gathering.settle()
    room.read_all()
    room.now += 10
    looks = []
    look = room.sources.look
    monkeypatch.setattr(room.sources, "look", lambda path: looks.append(path) or look(path))
    room.turns()
    assert looks == [LOG]


# What it costs


def test_a_quiet_file_is_looked_at_less_and_less_often_and_never_opened_again(monkeypatch):
    room = Room(LOG, poll_max_s=2)
    room.sources.write(LOG, FIRST)
    room.read_all()
    looks = []
    look = room.sources.look
    monkeypatch.setattr(room.sources, "look", lambda path: looks.append(room.now) or look(path))
    monkeypatch.setattr(room.sources, "open", None)
    for _ in range(6_000):
        room.now += POLL_MIN_S / 10
        room.gathering.turn(room.now)
    assert 25 <= len(looks) <= 60
    assert room.gathering.next_due <= room.now + 2


def test_a_file_that_grows_does_not_keep_the_others_waiting():
    room = Room("/logs/*")
    room.sources.write("/logs/a", b"a\n" * 5_000)
    room.sources.write("/logs/b", b"b\n")
    room.scan()
    room.turns(5)
    assert b"b" in [one.piece.value for one in room.topic.waiting]
