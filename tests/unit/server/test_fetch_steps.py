"""Sessions of thousands of partitions turn, and end, in steps."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kits.fetch_kit import FAR, Kit, sizes
from kits.log_kit import make_batch
from kits.slicing import count_pauses, finished
from moldau.server.fetch.reading import READERS_PER_STEP
from moldau.server.fetch.sessions import RELEASED_PER_TURN, FetchSession
from moldau.server.handlers.fetch import MOVES_PER_STEP, FetchHandler


class TestFetches:
    """Fetches of thousands of partitions."""

    @pytest.mark.patches
    def test_partitions_are_put_behind_the_others_in_steps(self):
        session = FetchSession(0, 0.0)
        for index in range(3 * MOVES_PER_STEP):
            session.reader("t", index)
        handler = SimpleNamespace(_rotation=2 * MOVES_PER_STEP - 1)
        assert count_pauses(FetchHandler._rotate(handler, session)) == 2
        assert next(iter(session.ready)).index == 2 * MOVES_PER_STEP

    def test_a_session_lets_go_in_turns(self):
        kit = Kit("watched")
        session = FetchSession(1, 0.0)
        reader = session.reader("watched", 0)
        session.attach(reader, kit["watched"])
        for index in range(3 * RELEASED_PER_TURN):
            session.reader("t", index)

        async def close():
            session.close()
            assert len(session.readers) > RELEASED_PER_TURN
            for _ in range(3):
                await asyncio.sleep(0)
            assert not session.readers

        asyncio.run(close())
        assert not session.ready
        kit["watched"].notify()
        assert not session.ready

    def test_records_that_come_between_two_steps_are_found_by_the_next_fetch(self):
        """The partition was read when it was empty; the answer tells of its high watermark only."""
        kit = Kit("first")
        session = kit.session()
        fetch = kit.fetch(session, {"first": (0, FAR)})
        for index in range(READERS_PER_STEP):
            session.reader("unknown", index)
        look = fetch.look()
        next(look)
        kit.append("first", make_batch([b"v"]))
        found, _ = finished(look)
        assert "first" not in sizes(found)
        finished(fetch.finish(found))
        found, _ = finished(kit.fetch(session).look())
        assert "first" in sizes(found)
