"""How long a node waits for what: Kafka's settings, with their defaults, in seconds.

Elections wait a random time, so that two nodes seldom begin one at the same moment. When votes were
split all the same, each waits a random time again, which doubles with every failure.
"""

from __future__ import annotations

from dataclasses import dataclass

from moldau.base.clock import Random


@dataclass(frozen=True, slots=True)
class Timeouts:
    """`controller.quorum.*` of the settings."""

    election_s: float = 1.0
    fetch_s: float = 2.0
    request_s: float = 2.0
    retry_backoff_s: float = 0.02
    backoff_max_s: float = 1.0
    split_vote_s: float = 0.05
    """The first wait after votes were split. Kafka waits for its election time-out instead; but
    nodes that see their leader's connection reset all begin in the same moment."""
    fetch_wait_s: float = 0.5
    """How long a leader may wait with an answer while there is nothing new."""
    observer_memory_s: float = 300.0
    """For so long a leader knows an observer that has stopped to fetch."""
    caught_up_s: float = 3600.0
    """A new voter has to have been level with its leader within this time."""

    @property
    def check_quorum_s(self) -> float:
        """Without fetches of a majority in this time a leader resigns."""
        return 1.5 * self.fetch_s

    def election(self, random: Random) -> float:
        """Draw an election time-out: between once and twice the setting."""
        return self.election_s * (1.0 + random.random())

    def split_vote(self, failures: int, random: Random) -> float:
        """Draw the wait after so many elections that nobody has won.

        It has to differ by more than a round of votes takes, so it may also be short.
        """
        return self._grown(self.split_vote_s, failures) * (0.2 + 1.8 * random.random())

    def retry(self, failures: int) -> float:
        """Return the wait before a request is sent again, after so many that failed in a row."""
        return self._grown(self.retry_backoff_s, failures - 1)

    def handover(self, position: int, count: int) -> float:
        """Return how long a successor waits, by its place in the list of the resigned leader.

        The first does not wait, nor does one that is not in the list (-1).
        """
        if position <= 0:
            return 0.0
        share: float = self.backoff_max_s / 2 ** (count - 1) * 2 ** (position - 1)
        return min(self.backoff_max_s, share)

    def _grown(self, first_s: float, failures: int) -> float:
        grown: float = first_s * 2 ** min(failures, 16)
        return min(self.backoff_max_s, grown)
