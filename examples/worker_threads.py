"""Threading model two: one consumer feeds worker threads; only finished work is committed.

As many records at once as there are threads, however few partitions the topic has. Records of one
key stay in order. A record whose work is not finished is never behind a committed offset, so a
crash repeats work and loses none. SIGTERM and Ctrl-C end it after the work in hand.

    python examples/worker_threads.py 127.0.0.1:9092 orders --group billing --threads 8
"""

from __future__ import annotations

import argparse
import signal
import threading

from moldau import Consumer, Record
from moldau.client.processing import KeyedThreads


def work(record: Record[bytes, bytes]) -> None:
    """Do what blocks: a query, a request, a file."""
    name = threading.current_thread().name
    line = f"{name} {record.partition} {record.offset} {record.value.decode()}\n"
    print(line, end="", flush=True)  # in one piece: other threads print, too


def run(arguments: argparse.Namespace) -> None:
    with Consumer[bytes, bytes](
        arguments.servers,
        group_id=arguments.group,
        topics=[arguments.topic],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        workers = KeyedThreads(consumer, work, concurrency=arguments.threads)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: workers.stop())
        workers.run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("--group", default="worker-threads")
    parser.add_argument("--threads", type=int, default=8)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
