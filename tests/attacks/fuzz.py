"""Requests of every API and version, made by their declarations, some of them damaged.

A request is filled with real names and extreme numbers (`kits.extreme_messages`); a part of them is
then damaged as bytes: flipped, cut, or with a length that lies. Behind each goes a small request
whose answer shows that the broker is done with the first. The broker may answer, or close the
connection. It may not log a traceback, answer -1, send what cannot be decoded, or fall silent.

The listener of a controller serves other APIs, to brokers. There the fuzzer is a broker that has
registered, and puts requests of clients into envelopes.

    PYTHONPATH=tests python -m attacks.fuzz --frames 200000 --seed 1 --form compiled
    PYTHONPATH=tests python -m attacks.fuzz --frames 200000 --seed 1 --listener controller
"""

from __future__ import annotations

import argparse
import contextlib
import random
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attacks.watched import STALL_GOAL_MS, Watched, watched_broker
from kafka_harness.ending import exit_on_sigterm
from kits.extreme_messages import Extremes, Known
from moldau.base.errors import ProtocolError
from moldau.cluster.brokers import SUPPORTED_FEATURES
from moldau.protocol.errors import ErrorCode
from moldau.protocol.fields import Kind
from moldau.protocol.messages.brokers import (
    BrokerRegistrationRequest,
    EnvelopeRequest,
    RegistrationFeature,
    RegistrationListener,
)
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from moldau.protocol.registry import (
    Api,
    api_of,
    decode_response,
    encode_request,
    find_api,
    response_correlation_id,
)
from process.raw_client import RawClient

TOPICS = ("target", "other")
DOOMED = tuple(f"doomed-{number}" for number in range(20))
METADATA_TOPIC_ID = bytes(15) + b"\x01"
SUBJECT, SENTINEL = 1, 2
"""Correlation ids of the request under test and of the one behind it."""
PATIENCE_S = 0.25
"""A request that waits for others, as JoinGroup does, is left behind after this."""
DAMAGED_SHARE = 0.4
FRAMES_PER_CONNECTION = 200
ENVELOPE_SHARE = 0.9
"""How many envelopes have a request in them; the others have noise."""
MEMBER_ID = 77
"""The broker that the fuzzer is, where it talks to a controller."""


class Fuzzer:
    """Sends frames to one listener of a broker and counts what becomes of them."""

    def __init__(
        self, watched: Watched, seed: int, connect: Callable[[], RawClient] | None = None
    ) -> None:
        self._watched = watched
        self._connect = connect or watched.client
        self._chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        with watched.client() as client:
            self._known = _known(client)
        with self._connect() as client:
            self._routes = _routes(client)
        self._extremes = Extremes(self._chance, self._known)
        sentinel = encode_request(
            api_of(ApiVersionsRequest), 0, SENTINEL, "fuzz", ApiVersionsRequest()
        )
        self._sentinel = b"".join(sentinel)  # type: ignore[arg-type]

    def run(self, frames: int) -> None:
        """Send so many frames, one after the other."""
        sent = 0
        while sent < frames and not self._watched.problems:
            with self._connect() as client:
                client.socket.settimeout(PATIENCE_S)
                for _ in range(FRAMES_PER_CONNECTION):
                    sent += 1
                    api, version = self._routes[sent % len(self._routes)]
                    if not self._try(client, api, version) or sent >= frames:
                        break
        with self._connect() as client:
            client.call(ApiVersionsRequest(), 0)

    def _try(self, client: RawClient, api: Api, version: int) -> bool:
        """Send one frame; return whether the connection can still be used."""
        frame, whole = self._frame(api, version)
        try:
            client.send_bytes(frame + self._sentinel)
            outcome = self._hear(client, api, version, decodes=whole)
        except TimeoutError:
            outcome = "left waiting"
        except ConnectionError:
            outcome = "closed"
        self.counts[outcome] += 1
        return outcome in {"answered", "without an answer"}

    def _hear(self, client: RawClient, api: Api, version: int, *, decodes: bool) -> str:
        outcome = "without an answer"
        while True:
            answer = memoryview(client.read_frame())
            number = response_correlation_id(answer)
            if number == SENTINEL:
                return outcome
            outcome = "answered"
            if decodes:
                self._check(api, version, answer)

    def _check(self, api: Api, version: int, answer: memoryview) -> None:
        try:
            message = decode_response(api, version, answer)
        except ProtocolError as error:
            self._watched.problems.append(f"{api.name} v{version}: undecodable answer: {error}")
            return
        if ErrorCode.UNKNOWN_SERVER_ERROR in set(error_codes(message)):
            self._watched.problems.append(f"{api.name} v{version}: UNKNOWN_SERVER_ERROR: {message}")

    def _frame(self, api: Api, version: int) -> tuple[bytes, bool]:
        """Return a frame, and whether it is what its declaration says."""
        message = self._extremes.message(api.request, version)
        if isinstance(message, EnvelopeRequest) and self._chance.random() < ENVELOPE_SHARE:
            message.request_data = self._frame(*self._chance.choice(self._routes))[0][4:]
            message.client_host_address = b"\x7f\0\0\1"
        parts = encode_request(api, version, SUBJECT, "fuzz", message)
        frame = b"".join(parts)  # type: ignore[arg-type]
        if self._chance.random() >= DAMAGED_SHARE:
            return frame, True
        content = self._damaged(bytearray(frame[4:]))
        return struct.pack(">i", len(content)) + content, False

    def _damaged(self, content: bytearray) -> bytes:
        """Damage what is behind the API, its version and the correlation id."""
        chance = self._chance
        for _ in range(chance.choice((1, 1, 1, 3))):
            position = chance.randrange(8, len(content)) if len(content) > 8 else 8
            match chance.randrange(5):
                case 0:
                    content[position : position + 1] = bytes([chance.randrange(256)])
                case 1:
                    del content[position:]
                case 2:
                    content[position : position + 4] = chance.choice(LYING_LENGTHS)
                case 3:
                    content[position:position] = chance.randbytes(chance.choice((1, 2, 4, 16)))
                case _:
                    content += content[position:]
        return bytes(content)


class ControllerFuzzer(Fuzzer):
    """Sends frames to the listener of a controller, as a broker that has registered."""

    def __init__(self, watched: Watched, seed: int) -> None:
        super().__init__(watched, seed, watched.controller_client)
        known = self._known
        with watched.client() as client:
            known.cluster_ids = [client.call(MetadataRequest([]), 12).cluster_id]
        with watched.controller_client() as client:
            epoch = _register(client, known.cluster_ids[0], known.topic_ids[0])
        # What it does to its own registration harms no other broker.
        known.numbers = {
            "broker_id": [MEMBER_ID],
            "broker_epoch": [epoch],
            "replica_epoch": [epoch],
            "current_metadata_offset": [epoch],
        }
        known.topics.append("__cluster_metadata")
        known.topic_ids.append(METADATA_TOPIC_ID)


LYING_LENGTHS = (
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\xff\xff", b"\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80", b"\0\x10\0\0",
)  # fmt: skip


def error_codes(message: Any) -> Iterator[int]:
    """Yield every error code of an answer."""
    for one in message.FIELDS:
        value = getattr(message, one.name)
        if one.name.endswith("error_code"):
            yield value
        elif one.kind is Kind.STRUCT and value is not None:
            yield from error_codes(value)
        elif one.kind is Kind.ARRAY and value and one.element.struct is not None:
            for part in value:
                yield from error_codes(part)


def _known(client: RawClient) -> Known:
    """Make topics and coordinators, and return their names and ids."""
    for topic in (*TOPICS, *DOOMED):
        assert client.create_topic(topic, 2) == 0
    for key_type, key in enumerate(("group", "transaction")):
        assert client.call(FindCoordinatorRequest(key, key_type), 2).error_code == 0
    asked = [MetadataRequestTopic(name=name) for name in (*TOPICS, *DOOMED)]
    ids = {topic.name: topic.topic_id for topic in client.call(MetadataRequest(asked), 12).topics}
    return Known(
        topics=list(TOPICS),
        topic_ids=[ids[name] for name in TOPICS],
        groups=["group"],
        doomed_topics=list(DOOMED),
        doomed_topic_ids=[ids[name] for name in DOOMED],
        members=["member"],
        transactional_ids=["transaction"],
    )


def _register(client: RawClient, cluster_id: str, incarnation_id: bytes) -> int:
    """Register a broker, and return its epoch."""
    request = BrokerRegistrationRequest(
        MEMBER_ID,
        cluster_id,
        incarnation_id,
        [RegistrationListener("PLAINTEXT", "127.0.0.1", 1, 0)],
        [RegistrationFeature(*feature) for feature in SUPPORTED_FEATURES],
        log_dirs=[incarnation_id],
    )
    answer = client.call(request, 4)
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return int(answer.broker_epoch)


def _routes(client: RawClient) -> list[tuple[Api, int]]:
    """Return every API in every version that the broker advertises."""
    return [
        (find_api(one.api_key), version)
        for one in client.call(ApiVersionsRequest(), 0).api_keys
        for version in range(one.min_version, one.max_version + 1)
    ]


def main() -> int:
    """Fuzz a broker of one form; return 1 if it did anything that it may not do."""
    exit_on_sigterm()
    parser = argparse.ArgumentParser(description="Send frames of every kind to a real broker.")
    parser.add_argument("--frames", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--listener", choices=["broker", "controller"], default="broker")
    parser.add_argument("--form", choices=["checkout", "compiled"], default="checkout")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        compiled = chosen.form == "compiled"
        is_voter = chosen.listener == "controller"
        watched = stack.enter_context(
            watched_broker(Path(folder), compiled=compiled, is_voter=is_voter)
        )
        fuzzer = (ControllerFuzzer if is_voter else Fuzzer)(watched, chosen.seed)
        begun = time.monotonic()
        fuzzer.run(chosen.frames)
        toll = watched.toll()
        counts = ", ".join(f"{count} {name}" for name, count in sorted(fuzzer.counts.items()))
        where = f"{chosen.form}, {chosen.listener}, seed {chosen.seed}"
        print(f"{where}, {time.monotonic() - begun:.0f} s: {counts}")
        print(f"{toll}; goals: {STALL_GOAL_MS} ms on an idle machine")
        for problem in toll.problems:
            print(f"PROBLEM: {problem}")
    return 1 if toll.problems else 0


if __name__ == "__main__":
    sys.exit(main())
