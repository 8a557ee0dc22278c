"""Threading model one: every thread has a consumer of its own, and the group shares out the work.

Simple, and in order within each partition; as many threads as there are partitions can work at
once. Run it several times and the group shares between the processes as well. SIGTERM and Ctrl-C
end it after the records in hand.

    python examples/consumer_per_thread.py 127.0.0.1:9092 orders --group billing --threads 3
"""

from __future__ import annotations

import argparse
import signal
import threading

from moldau import Consumer, Record

POLL_MS = 500
"""How long an idle thread takes to notice that it is to end."""


def handle(record: Record[bytes, bytes]) -> None:
    name = threading.current_thread().name
    line = f"{name} {record.partition} {record.offset} {record.value.decode()}\n"
    print(line, end="", flush=True)  # in one piece: other threads print, too


def work(arguments: argparse.Namespace, stopping: threading.Event) -> None:
    with Consumer[bytes, bytes](
        arguments.servers,
        group_id=arguments.group,
        topics=[arguments.topic],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while not stopping.is_set():
            records = consumer.poll(timeout_ms=POLL_MS)
            for record in records:
                handle(record)
            if records:
                consumer.commit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--group", default="consumer-per-thread")
    parser.add_argument("--threads", type=int, default=3)
    arguments = parser.parse_args()
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threads = [
        threading.Thread(target=work, args=(arguments, stopping), name=f"worker-{number}")
        for number in range(arguments.threads)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
