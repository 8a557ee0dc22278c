"""Three ways from a file in the page cache to a loopback socket: `python -m bench.file_sending`.

`sendfile`, reading into a buffer and sending that, and sending from a memory map; each with Kafka's
socket buffer and with the kernel's own tuning. What counts is the sender's CPU per gigabyte: the
reason why answers to Fetch are regions of files (docs/performance.md).
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import resource
import socket
import tempfile
import time
from collections.abc import Callable

SIZE = 1 << 30
PIECE = 1 << 20
COPIED = 1 << 18
KAFKA_BUFFER = 102_400
ROUNDS = 3


def by_sendfile(sock: socket.socket, descriptor: int) -> None:
    position = 0
    while position < SIZE:
        position += os.sendfile(sock.fileno(), descriptor, position, PIECE)


def by_copy(sock: socket.socket, descriptor: int) -> None:
    buffer = bytearray(COPIED)
    for position in range(0, SIZE, COPIED):
        os.preadv(descriptor, [buffer], position)
        sock.sendall(buffer)


def by_map(sock: socket.socket, descriptor: int) -> None:
    with mmap.mmap(descriptor, SIZE, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        for position in range(0, SIZE, PIECE):
            sock.sendall(view[position : position + PIECE])


def swallow(address: tuple[str, int]) -> None:
    """Read until the sender is done."""
    buffer = bytearray(1 << 16)
    with socket.create_connection(address) as sock:
        while sock.recv_into(buffer):
            pass


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(send: Callable[[socket.socket, int], None], buffer_size: int, descriptor: int) -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if buffer_size > 0:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_size)
        reader = multiprocessing.Process(target=swallow, args=(listener.getsockname(),))
        reader.start()
        try:
            with listener.accept()[0] as sock:
                began, before = time.perf_counter(), cpu_s()
                send(sock, descriptor)
                took, used = time.perf_counter() - began, cpu_s() - before
        finally:
            reader.join(10)
            reader.kill()
    gigabytes = SIZE / 1e9
    return f"{gigabytes / took:5.2f} GB/s  {used / gigabytes:.3f} CPU s/GB"


def main() -> None:
    with tempfile.TemporaryFile() as file:
        piece = os.urandom(PIECE)
        for _ in range(SIZE // PIECE):
            file.write(piece)
        file.flush()
        for _ in range(ROUNDS):
            for send in (by_sendfile, by_copy, by_map):
                for name, size in (("Kafka's buffer", KAFKA_BUFFER), ("kernel's tuning", -1)):
                    figures = measure(send, size, file.fileno())
                    print(f"{send.__name__:12} {name:16} {figures}", flush=True)


if __name__ == "__main__":
    main()
