"""The check for what is left behind finds it, also in cycles that only a collection would end."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from kits.leaks import run_without_leaks


async def fails():
    raise ZeroDivisionError


def test_a_task_that_failed_and_that_nobody_asked_is_found_in_a_cycle():
    async def scenario():
        cycle = {}
        cycle["itself"] = cycle
        cycle["task"] = asyncio.create_task(fails())
        await asyncio.sleep(0)

    with pytest.raises(AssertionError, match="the loop complains"):
        run_without_leaks(scenario())


def test_a_task_that_goes_on_is_found():
    async def scenario():
        scenario.task = asyncio.create_task(asyncio.Event().wait())

    with pytest.raises(AssertionError, match="tasks left behind"):
        run_without_leaks(scenario())


def test_a_socket_and_a_thread_are_found(monkeypatch):
    monkeypatch.setattr("kits.leaks.FOREIGN_SOCKETS_END_S", 0)
    enough = threading.Event()

    async def open_socket():
        return socket.socket()

    async def start_thread():
        threading.Thread(target=enough.wait).start()

    opened = []
    with pytest.raises(AssertionError, match="sockets left behind"):
        run_without_leaks(kept(open_socket(), opened))
    opened.pop().close()
    with pytest.raises(AssertionError, match="threads left behind"):
        run_without_leaks(start_thread())
    enough.set()


async def kept(work, kept_in):
    kept_in.append(await work)


def test_what_cleans_up_is_not_accused():
    async def scenario():
        await asyncio.gather(fails(), return_exceptions=True)
        return "done"

    assert run_without_leaks(scenario()) == "done"
