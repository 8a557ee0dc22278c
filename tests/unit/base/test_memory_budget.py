"""Who may hold how much memory, who waits, and who is closed. Time is ticks made by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.memory_budget import (
    BLOCKED_PATIENCE_TICKS,
    MIB,
    PATIENCE_TICKS,
    Holding,
    Kind,
    MemoryAccount,
    MemoryBudget,
)

LIMIT = 256 * MIB
LARGEST = 100 * MIB


class Peer:
    """A connection as a budget sees it."""

    def __init__(self, budget, name="peer"):
        self.peer = name
        self.blocked = False
        self.account = MemoryAccount(budget, self)
        self.grants = []
        self.account.request.granted = lambda: self.grants.append(self.request.held)
        self.account.work.granted = lambda: self.grants.append(self.account.work.held)

    @property
    def request(self) -> Holding:
        return self.account.request

    def reading_is_blocked(self):
        return self.blocked

    def sending_is_blocked(self):
        return self.blocked

    def abort(self):
        self.account.close()


def make_budget():
    return MemoryBudget(LIMIT, largest_request=LARGEST)


def peers(budget, count):
    return [Peer(budget, f"peer {number}") for number in range(count)]


def ask_small(budget, peer, size=MIB, at_least=0):
    return budget.ask(peer.request, budget.small, size, at_least)


def fill(budget, share, size=2 * MIB):
    """Let newcomers take all that they may, and one the turn; return them."""
    taken = []
    while not budget.waiting:
        taken.append(Peer(budget, f"filler {len(taken)}"))
        budget.ask(taken[-1].request, share, size)
    budget.release(taken.pop().request)
    return taken


def ticks(budget, count):
    """Return who is to be closed after each of some ticks."""
    return [[eviction.holding for eviction in budget.tick()] for _ in range(count)]


# Who waits


def test_what_fits_is_given_at_once_and_given_back():
    budget = make_budget()
    (peer,) = peers(budget, 1)
    assert ask_small(budget, peer)
    assert (budget.held, budget.small.used) == (MIB, MIB)
    assert ask_small(budget, peer, 2 * MIB)
    assert budget.held == 2 * MIB
    budget.release(peer.request)
    assert (budget.held, budget.small.used, budget.waits) == (0, 0, 0)
    assert not budget.small.holdings


def test_without_a_limit_nobody_waits():
    budget = MemoryBudget(-1)
    for peer in peers(budget, 50):
        assert budget.ask(peer.request, budget.large, LARGEST)
    assert not budget.is_limited
    assert not budget.needs_ticks


def test_shares_and_one_largest_request_are_no_more_than_the_limit():
    budget = make_budget()
    assert sum(share.size for share in budget.shares) + LARGEST <= LIMIT


def test_those_that_wait_are_served_in_the_order_in_which_they_came():
    budget = make_budget()
    fillers = fill(budget, budget.small)
    waiting = peers(budget, 3)
    assert [ask_small(budget, peer, 2 * MIB, 1000) for peer in waiting] == [False] * 3
    assert [peer.request.held for peer in waiting] == [1000] * 3
    assert budget.is_short
    assert (budget.waiting, budget.waits) == (3, 4)  # the last filler had waited, too
    for number, filler in enumerate(fillers[:3]):
        budget.release(filler.request)
        assert [len(peer.grants) for peer in waiting] == [1] * (number + 1) + [0] * (2 - number)
    assert waiting[0].grants == [2 * MIB]
    assert not budget.is_short


def test_who_asks_again_keeps_its_place():
    budget = make_budget()
    fillers = fill(budget, budget.small)
    first, second = peers(budget, 2)
    ask_small(budget, first)
    ask_small(budget, second)
    assert not ask_small(budget, first, 2 * MIB)
    budget.release(fillers[0].request)
    assert (first.grants, second.grants) == ([2 * MIB], [])


def test_who_no_longer_needs_more_leaves_the_line():
    budget = make_budget()
    fill(budget, budget.small)
    (peer,) = peers(budget, 1)
    ask_small(budget, peer, MIB, at_least=1000)
    assert ask_small(budget, peer, 1000)
    assert budget.waiting == 0


def test_one_kind_of_memory_does_not_hold_up_another():
    budget = make_budget()
    fill(budget, budget.large)
    fill(budget, budget.answers)
    (peer,) = peers(budget, 1)
    assert ask_small(budget, peer)


def test_a_request_that_turns_out_large_leaves_the_share_of_small_ones():
    budget = make_budget()
    (peer,) = peers(budget, 1)
    ask_small(budget, peer)
    assert budget.ask(peer.request, budget.large, 4 * MIB)
    assert (budget.small.used, budget.large.used, budget.held) == (0, 4 * MIB, 4 * MIB)


# The turn


def test_one_at_a_time_may_go_beyond_its_share_so_that_a_line_moves():
    budget = make_budget()
    fill(budget, budget.large)
    turn = budget.large.turn
    assert turn is not None
    first, second = peers(budget, 2)
    for peer in (first, second):
        assert not budget.ask(peer.request, budget.large, 2 * MIB)
    assert budget.ask(turn, budget.large, LARGEST), "who has the turn is never refused"
    budget.release(turn)
    assert budget.large.turn is first.request
    assert budget.ask(first.request, budget.large, LARGEST)
    assert not second.grants


def test_the_turn_ends_with_the_request_and_not_with_the_connection():
    budget = make_budget()
    fill(budget, budget.large)
    turn = budget.large.turn
    (peer,) = peers(budget, 1)
    budget.ask(peer.request, budget.large, 2 * MIB)
    budget.finish(turn)
    assert budget.large.turn is peer.request


@given(
    st.lists(
        st.tuples(st.integers(0, 19), st.integers(1, LARGEST), st.sampled_from(["ask", "leave"])),
        max_size=80,
    )
)
def test_whatever_is_asked_for_somebody_can_always_go_on(steps):
    budget = make_budget()
    everybody = peers(budget, 20)
    for number, size, step in steps:
        request = everybody[number].request
        if step == "leave":
            budget.release(request)
        elif size >= request.held:
            share = budget.request_share(size)
            budget.ask(request, share, size)
        for share in budget.shares:
            assert share.used == sum(one.in_share for one in share.holdings)
            assert not share.waiting or share.turn is not None
            assert share.turn is None or not share.turn.is_waiting
        assert budget.held == sum(one.held for share in budget.shares for one in share.holdings)
        assert budget.held <= LIMIT + LARGEST
    for peer in everybody:
        budget.release(peer.request)
    assert (budget.held, budget.waiting) == (0, 0)


# Who is known


def test_hundreds_that_begin_do_not_hold_up_one_that_has_finished_before():
    budget = make_budget()
    (producer,) = peers(budget, 1)
    ask_small(budget, producer)
    budget.finish(producer.request)
    budget.release(producer.request)
    fill(budget, budget.small)
    crowd = peers(budget, 300)
    assert not any(ask_small(budget, peer) for peer in crowd)
    assert ask_small(budget, producer)
    assert budget.small.turn is not producer.request


def test_one_is_known_only_for_the_size_that_it_has_finished():
    budget = make_budget()
    (peer,) = peers(budget, 1)
    ask_small(budget, peer, 20_000)
    budget.finish(peer.request)
    fill(budget, budget.small)
    assert not ask_small(budget, peer)


def test_the_known_and_newcomers_are_served_alternately():
    budget = make_budget()
    everything, turn, *waiting = peers(budget, 6)
    everything.request.known_size = LIMIT
    ask_small(budget, everything, budget.small.size)
    ask_small(budget, turn)
    served = []
    for number, peer in enumerate(waiting):
        peer.request.known_size = LIMIT if number < 2 else 0
        peer.request.granted = lambda number=number: served.append(number)
        assert not ask_small(budget, peer)
    budget.release(turn.request)
    for peer in (waiting[0], waiting[2], waiting[1]):
        assert budget.small.turn is peer.request
        budget.release(peer.request)
    assert served == [0, 2, 1, 3]


# Who is closed


def test_nobody_is_closed_while_nobody_waits():
    budget = make_budget()
    ask_small(budget, Peer(budget))
    assert not budget.needs_ticks
    assert ticks(budget, 2 * PATIENCE_TICKS) == [[]] * 2 * PATIENCE_TICKS


def test_those_that_send_nothing_are_closed_the_largest_first_and_no_more_than_needed():
    budget = make_budget()
    large = Peer(budget)
    ask_small(budget, large, 2 * MIB)
    fillers = fill(budget, budget.small, MIB)
    (peer,) = peers(budget, 1)
    ask_small(budget, peer, MIB)
    assert budget.needs_ticks
    # The first tick marks where everybody stands.
    *before, last = ticks(budget, PATIENCE_TICKS + 1)
    assert before == [[]] * PATIENCE_TICKS
    assert last == [large.request]
    assert budget.evictions == 1
    large.abort()
    assert peer.grants == [MIB]
    assert all(filler.request.held for filler in fillers)


def test_the_reason_names_what_was_held_and_how_little_came():
    budget = make_budget()
    fill(budget, budget.small)
    ask_small(budget, Peer(budget))
    *_, (eviction,) = (budget.tick() for _ in range(PATIENCE_TICKS + 1))
    assert eviction.reason == (
        "it held 2097152 bytes of an unfinished request and moved 0 bytes in 1 s "
        "while memory was short (1 others waited for it)"
    )


@pytest.mark.parametrize(("part", "closed"), [(17, True), (15, False)])
def test_one_that_drips_must_move_a_sixteenth_of_what_it_holds_within_the_patience(part, closed):
    budget = make_budget()
    fillers = fill(budget, budget.small)
    ask_small(budget, Peer(budget))
    found = []
    for _ in range(3 * PATIENCE_TICKS):
        for filler in fillers:
            filler.request.moved += 2 * MIB // part // PATIENCE_TICKS
        found += budget.tick()
    assert bool(found) is closed


def test_one_that_the_broker_does_not_read_from_has_more_time():
    budget = make_budget()
    fillers = fill(budget, budget.small)
    for filler in fillers:
        filler.blocked = True
    ask_small(budget, Peer(budget))
    *before, last = ticks(budget, BLOCKED_PATIENCE_TICKS + 1)
    assert before == [[]] * BLOCKED_PATIENCE_TICKS
    assert last


def test_one_that_waits_for_memory_is_not_blamed():
    budget = make_budget()
    fillers = fill(budget, budget.small)
    waiting = Peer(budget)
    ask_small(budget, waiting, MIB, at_least=1000)
    for _ in range(3 * PATIENCE_TICKS):
        for filler in fillers:
            filler.request.moved += MIB
        assert waiting.request not in [eviction.holding for eviction in budget.tick()]


def test_patience_begins_anew_when_memory_is_short_again():
    budget = make_budget()
    fill(budget, budget.small)
    peer = Peer(budget)
    ask_small(budget, peer)
    assert not any(ticks(budget, PATIENCE_TICKS))
    budget.release(peer.request)
    assert not budget.needs_ticks
    ask_small(budget, peer)
    assert not any(ticks(budget, PATIENCE_TICKS))
    assert ticks(budget, 1) != [[]]


def test_unread_answers_beyond_their_share_are_closed_though_nobody_waits():
    budget = make_budget()
    readers = peers(budget, 3)
    for reader in readers:
        budget.charge(reader.account.answer, budget.answers, budget.answers.size // 2)
    assert budget.needs_ticks
    readers[0].account.answer.moved += 1
    for _ in range(PATIENCE_TICKS):
        readers[0].account.answer.moved += MIB * 16
        assert budget.tick() == []
    readers[0].account.answer.moved += MIB * 16
    assert [one.holding for one in budget.tick()] == [readers[1].account.answer]


def test_work_waits_for_unread_answers_and_is_never_closed():
    budget = make_budget()
    reader, worker = peers(budget, 2)
    budget.charge(reader.account.answer, budget.answers, budget.answers.size)
    first = Peer(budget)
    assert budget.ask(first.account.work, budget.answers, MIB), "it has the turn"
    assert not budget.ask(worker.account.work, budget.answers, MIB)
    evicted = [one for found in ticks(budget, 2 * PATIENCE_TICKS) for one in found]
    assert set(evicted) == {reader.account.answer}
    reader.abort()
    assert worker.grants == [MIB]


def test_work_outlives_its_connection():
    budget = make_budget()
    peer = Peer(budget)
    budget.ask(peer.account.work, budget.answers, MIB)
    budget.charge(peer.account.answer, budget.answers, MIB)
    peer.abort()
    assert budget.held == MIB
    budget.release(peer.account.work)
    assert budget.held == 0


def test_far_beyond_the_limit_the_largest_go_at_once():
    budget = make_budget()
    small, large, working = peers(budget, 3)
    budget.charge(small.account.answer, budget.answers, 20 * MIB)
    budget.charge(large.account.answer, budget.answers, 40 * MIB)
    assert not budget.is_over_ceiling
    budget.charge(working.account.work, budget.answers, LIMIT)
    assert budget.is_over_ceiling
    assert [one.holding for one in budget.evict_largest()] == [
        large.account.answer,
        small.account.answer,
    ]
    assert working.account.work.kind is Kind.WORK


def test_listeners_hear_when_memory_becomes_short_and_when_it_no_longer_is():
    budget = make_budget()
    heard = []
    budget.changed.append(lambda: heard.append((budget.is_short, budget.needs_ticks)))
    fillers = fill(budget, budget.small)
    heard.clear()
    peer = Peer(budget)
    ask_small(budget, peer)
    budget.release(fillers[0].request)
    assert heard == [(True, True), (False, False)]
