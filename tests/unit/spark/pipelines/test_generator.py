"""Made-up events: the same from the same seed, and with all that a pipeline must take."""

from __future__ import annotations

import json

from moldau.spark.pipelines.activity.generator import Crowd, Habits, iso

NOW_MS = 1_790_000_000_000


def events(seed, count, **habits):
    crowd = Crowd(seed, Habits(**habits))
    return [crowd.event(NOW_MS)[1] for _ in range(count)]


def test_the_same_seed_gives_the_same_events():
    assert events(1, 200) == events(1, 200)
    assert events(1, 200) != events(2, 200)


def test_good_events_have_the_fields_that_are_described():
    for value in events(1, 200, broken=0, twice=0, late=0):
        told = json.loads(value)
        name = {"view": "page", "search": "query"}[told["kind"]]
        assert set(told) == {"event_id", "kind", "user", "time", name}
        assert told["time"] == iso(NOW_MS) == "2026-09-21T14:13:20.000Z"


def test_ids_are_those_of_one_event_unless_it_is_sent_twice():
    ids = [json.loads(value)["event_id"] for value in events(1, 500, broken=0, twice=0)]
    assert len(set(ids)) == 500
    twice = events(1, 500, broken=0, twice=0.5)
    assert len(set(twice)) < 400


def test_some_are_late_and_some_are_broken():
    assert any(b'"time"' not in value for value in events(1, 100, broken=0.5))
    times = [json.loads(value)["time"] for value in events(1, 100, broken=0, late=0.5)]
    assert min(times) < iso(NOW_MS)
    assert max(times) == iso(NOW_MS)
