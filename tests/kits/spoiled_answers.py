"""Answers of a voter that arrive spoiled, as an observer may get them."""

from __future__ import annotations


class Spoiling:
    """Spoils the answers of a source for a while."""

    def __init__(self, source, spoil_fetch=None, spoil_piece=None, times=3):
        self._source = source
        self._spoil = {"fetch": spoil_fetch, "piece": spoil_piece}
        self.left = times

    async def fetch(self, request):
        return self._spoiled("fetch", await self._source.fetch(request))

    async def close(self):
        pass

    async def fetch_snapshot(self, request):
        return self._spoiled("piece", await self._source.fetch_snapshot(request))

    def _spoiled(self, kind, answer):
        spoil = self._spoil[kind]
        if spoil is not None and self.left and spoil(answer) is not False:
            self.left -= 1
        return answer


def fetched_partition(answer):
    """Find the metadata partition in the answer to a Fetch."""
    return answer.responses[0].partitions[0]


def snapshot_piece(answer):
    """Find the metadata partition in the answer to a FetchSnapshot."""
    return answer.topics[0].partitions[0]


def spoil_values(find, **values):
    """Return what spoils an answer by other values in one of its parts."""

    def spoil(answer):
        for name, value in values.items():
            setattr(find(answer), name, value)

    return spoil


def spoil_bytes(find, field, change):
    """Return what spoils an answer by a change to its bytes, if it has any."""

    def spoil(answer):
        part = find(answer)
        data = bytearray(getattr(part, field) or b"")
        if not data:
            return False
        change(data)
        setattr(part, field, bytes(data))
        return True

    return spoil


def flip_bit_in_the_middle(data):
    data[len(data) // 2] ^= 1
