"""`kafka-verifiable-producer`: sends numbers that count up, and tells of each what became of it.

Nothing is sent a second time unless the settings say so: what is told to have failed may be there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.frame import client
from moldau.cli.kafka.console import Console
from moldau.cli.kafka.java_words import exception_name, text_of
from moldau.cli.kafka.options import OptionParser, Options, number, text
from moldau.cli.kafka.running import client_settings, cluster_options, fitting, require_cluster
from moldau.cli.kafka.verifiable import AT_ONCE, Events, Stop, parse_or_help, start

if TYPE_CHECKING:
    from moldau.base.errors import MoldauError

ABOUT: Final = (
    "This tool produces increasing integers to the specified topic and prints JSON metadata to"
    ' stdout on each "send" request, making externally visible which messages have been acked and'
    " which have not."
)
ACKS: Final = ("0", "1", "-1")
NO_LIMIT: Final = -1

PARSER: Final = OptionParser(
    [
        *cluster_options(),
        text("topic", "TOPIC", "The topic."),
        number("max-messages", "MAX-MESSAGES", "How many to send; -1 for no end.", default=-1),
        number("throughput", "THROUGHPUT", "So many a second at most; -1 for as many as it can.",
               default=-1),
        text("acks", "ACKS", "Who must have a record: 0, 1 or -1 for all.", default="-1"),
        number("message-create-time", "CREATE-TIME", "The first record's time in ms since 1970.",
               default=-1),
        number("value-prefix", "VALUE-PREFIX", "Put this and a dot before each number."),
        number("repeating-keys", "REPEATING-KEYS", "Give keys from 0 to below this, in turn."),
    ]
)  # fmt: skip


def main(arguments: Sequence[str], console: Console) -> int:
    """Run the command; return its exit status."""
    options = parse_or_help(PARSER, arguments, ABOUT, console)
    options.require("topic")
    require_cluster(options)
    acks = options.text("acks")
    if acks not in ACKS:
        raise options.error(f"argument --acks: invalid choice: '{acks}' (choose from 0, 1, -1)")
    settings = {"acks": acks, "retries": "0"} | AT_ONCE | client_settings(options, console)

    producer: client.Producer[bytes, bytes] = client.Producer(**fitting(client.Producer, settings))
    events = Events(console)
    with Stop() as stop:
        sending = _Sending(options, events, stop)
        try:
            sending.run(producer)
        finally:
            producer.close()
        sending.report()
        return stop.status


class _Sending:
    """One run; results come on the producer's own thread, one after the other."""

    def __init__(self, options: Options, events: Events, stop: Stop) -> None:
        self._topic = options.text("topic")
        given = options.number("max-messages")
        self._count_max = None if given is None or given < 0 else given
        rate = options.number("throughput")
        self._rate = NO_LIMIT if rate is None else rate
        created_ms = options.number("message-create-time")
        self._created_ms = None if created_ms == -1 else created_ms
        self._prefix = options.number("value-prefix")
        self._key_count = options.number("repeating-keys")
        self._events = events
        self._stop = stop
        self._start_ms = _now_ms()
        self._sent_count = 0
        self._acked_count = 0

    def run(self, producer: client.Producer[bytes, bytes]) -> None:
        self._events.tell("startup_complete")
        start(producer, self._stop)
        for place in count():
            if self._stop.came or not self._events.is_read or place == self._count_max:
                return
            self._send(producer, self._key(place), self._value(place))
            self._throttle(place + 1)

    def report(self) -> None:
        """Tell how it went, all in all."""
        elapsed_ms = max(_now_ms() - self._start_ms, 1)
        self._events.tell("shutdown_complete")
        self._events.tell(
            "tool_data",
            sent=self._sent_count,
            acked=self._acked_count,
            target_throughput=self._rate,
            avg_throughput=1000 * self._acked_count / elapsed_ms,
        )

    def _key(self, place: int) -> str | None:
        return None if not self._key_count else str(place % self._key_count)

    def _value(self, place: int) -> str:
        return f"{place}" if self._prefix is None else f"{self._prefix}.{place}"

    def _send(self, producer: client.Producer[bytes, bytes], key: str | None, value: str) -> None:
        created_ms = self._created_ms
        if created_ms is not None:
            # As in Kafka's command, times run ahead: each is later by all the time that has passed.
            self._created_ms = created_ms + _now_ms() - self._start_ms
        self._sent_count += 1
        try:
            delivery = producer.send(
                self._topic,
                value.encode(),
                None if key is None else key.encode(),
                timestamp_ms=created_ms,
            )
        except client.ClientError as error:
            self._failed(key, value, error)
        else:
            delivery.add_done_callback(partial(self._settled, key, value))

    def _settled(self, key: str | None, value: str, delivery: Any) -> None:
        error = delivery.exception()
        if error is not None:
            self._failed(key, value, error)
            return
        self._acked_count += 1
        topic, partition, offset, _ = delivery.metadata()
        self._events.tell(
            "producer_send_success",
            key=key,
            value=value,
            offset=offset,
            topic=topic,
            partition=partition,
        )

    def _failed(self, key: str | None, value: str, error: MoldauError) -> None:
        self._events.tell(
            "producer_send_error",
            topic=self._topic,
            key=key,
            value=value,
            exception=f"class {exception_name(error)}",
            message=text_of(error),
        )

    def _throttle(self, sent_count: int) -> None:
        """Wait where it goes too fast; a rate of 0 waits for the end."""
        if self._rate == 0:
            while not self._stop.came:
                self._stop.nap()
        elif self._rate > 0:
            self._stop.nap(sent_count / self._rate - (_now_ms() - self._start_ms) / 1000)


def _now_ms() -> int:
    return int(time.time() * 1000)
