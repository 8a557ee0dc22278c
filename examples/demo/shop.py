"""A small made-up service: it sells fruit, has bad minutes, and writes all of it down.

    shop.log       as Python's `logging` does, with tracebacks
    access.log     a line for each request, as nginx does, with the time that the request took
    payments.log   a JSON object for each payment

Files are rotated when they have grown. What is in stock goes to a compacted topic, where the last
record of a product counts; one that is sold out is deleted there.

    python examples/demo/shop.py FOLDER BROKER
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from moldau import Producer

REQUESTS_PER_SECOND: Final = 20
FILE_SIZE: Final = 100_000
"""So much is written in less than a minute: collectors follow a file when it is rotated."""

CALM_S: Final = 40.0
TROUBLE_S: Final = 10.0
"""After so many good seconds there are so many in which every other payment fails."""

FRUIT: Final = ("plum", "pear", "apple", "cherry", "quince", "apricot", "peach", "fig")
BOXES: Final = 30
"""What a delivery brings."""


class PaymentError(Exception):
    """The bank does not answer."""


class Stock:
    """What there is, told to a topic whenever it changes."""

    def __init__(self, producer: Producer[bytes, bytes], topic: str = "stock") -> None:
        self._producer = producer
        self._topic = topic
        self._boxes = dict.fromkeys(FRUIT, BOXES)
        self.changes = 0

    def take(self, fruit: str) -> None:
        """Sell a box; one that was sold out is delivered first."""
        self._boxes[fruit] = (self._boxes[fruit] or BOXES) - 1
        told = {"product": fruit, "boxes": self._boxes[fruit], "price": 2 + len(fruit) / 4}
        value = json.dumps(told).encode() if self._boxes[fruit] else None
        self._producer.send(self._topic, value, key=fruit.encode())
        self.changes += 1


class Shop:
    """Takes one order after the other."""

    def __init__(self, folder: Path, stock: Stock, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._stock = stock
        self._log = log_to(folder / "shop.log", "%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._access = log_to(folder / "access.log", "%(message)s")
        self._payments = log_to(folder / "payments.log", "%(message)s")
        self._began_s = time.monotonic()
        self._orders = 0

    def serve(self) -> None:
        """Take an order, and write down what becomes of it."""
        self._orders += 1
        fruit = self._random.choice(FRUIT)
        status, took_s = 201, self._random.lognormvariate(-3.5, 0.4)
        try:
            self._pay(took_s)
            self._stock.take(fruit)
            self._log.info("order %d: a box of %s", self._orders, fruit)
        except PaymentError:
            status, took_s = 503, took_s + 1.0
            self._log.exception("order %d is lost", self._orders)
        self._note(f"/order/{fruit}", status, took_s)

    def _pay(self, took_s: float) -> None:
        amount = round(self._random.uniform(2, 40), 2)
        fails = self._is_troubled and self._random.random() < 0.5
        told = {
            "time": _iso(time.time()),
            "level": "error" if fails else "info",
            "service": "payments",
            "message": "the bank does not answer" if fails else "paid",
            "order": self._orders,
            "amount": amount,
            "took_s": round(took_s, 4),
        }
        self._payments.info(json.dumps(told))
        if fails:
            raise PaymentError(f"{amount} could not be paid")

    def _note(self, path: str, status: int, took_s: float) -> None:
        address = f"10.0.0.{self._random.randrange(1, 250)}"
        now = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
        size = self._random.randrange(200, 900)
        request = f'{address} - - [{now}] "POST {path} HTTP/1.1" {status} {size} "-" "fruit/1.0"'
        self._access.info("%s %.3f", request, took_s)

    @property
    def _is_troubled(self) -> bool:
        return (time.monotonic() - self._began_s) % (CALM_S + TROUBLE_S) >= CALM_S


def log_to(path: Path, form: str) -> logging.Logger:
    """Return a log with a file of its own."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=FILE_SIZE, backupCount=3)
    formatter = logging.Formatter(form)
    formatter.converter = time.gmtime  # these times have no zone
    handler.setFormatter(formatter)
    log = logging.getLogger(path.stem)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return log


def _iso(moment_s: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment_s))
    return f"{whole}.{int(moment_s % 1 * 1000):03d}Z"


def main(folder: Path, address: str) -> None:
    folder.mkdir(exist_ok=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Producer(address) as producer:
        stock = Stock(producer)
        shop = Shop(folder, stock)
        while not stop.wait(1 / REQUESTS_PER_SECOND):
            shop.serve()
    print(f"{stock.changes:,} changes sent", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
