"""Both faces of the admin: the same names, signatures and settings."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys

import pytest

from moldau import Admin, AsyncAdmin, ConfigError
from moldau.client.admin import AdminCalls
from moldau.client.administration.configs import config_text
from moldau.client.errors import ClientClosed, InvalidState
from moldau.engine.asking import Asking
from moldau.engine.cluster import Cluster
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings

CALLS = [
    name
    for name, member in inspect.getmembers(AdminCalls, inspect.iscoroutinefunction)
    if not name.startswith("_")
]


def test_there_is_no_call_that_only_one_face_has():
    def public(face):
        return {name for name in dir(face) if not name.startswith("_")}

    assert public(Admin) == public(AsyncAdmin) == {*CALLS, "start", "close", "metrics"}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_one_signature_and_an_example_for_each_face(name):
    waiting, blocking = getattr(AsyncAdmin, name), getattr(Admin, name)
    assert inspect.signature(waiting) == inspect.signature(blocking)
    assert "timeout_ms" in inspect.signature(waiting).parameters
    assert not inspect.iscoroutinefunction(blocking)
    assert "`" in waiting.__doc__
    assert "await " in waiting.__doc__
    assert "await " not in blocking.__doc__
    assert f"{name.removesuffix('s')}" in waiting.__doc__


def test_settings_are_taken_with_kafkas_names_and_a_misspelt_one_is_refused():
    admin = Admin(**{"bootstrap.servers": "a:1", "default.api.timeout.ms": "5"})
    assert admin._default_api_timeout_ms == 5
    with pytest.raises(ConfigError, match="default_api_timeout_ms"):
        AsyncAdmin("a:1", default_api_timeout=5)
    with pytest.raises(ConfigError):
        AsyncAdmin("a:1", default_api_timeout_ms=-1)


def test_looking_at_topics_never_creates_them():
    assert not Admin("a:1")._connection_settings.allow_auto_create_topics


def test_importing_it_brings_neither_producer_nor_consumer_nor_broker():
    code = "from moldau import Admin\nAdmin\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    loaded = set(done.stdout.split())
    assert "moldau.client.admin" in loaded
    assert not loaded & {
        "click", "moldau.server", "moldau.storage", "moldau.records.builder",
        "moldau.client.consumer", "moldau.client.consuming.core", "moldau.client.producer",
    }  # fmt: skip


def test_calls_before_the_start_and_after_the_end_are_refused():
    admin = Admin("localhost:1")
    with pytest.raises(InvalidState, match="has not been started"):
        admin.list_topics()
    admin.close()
    with pytest.raises(ClientClosed):
        admin.list_topics()
    with pytest.raises(InvalidState):
        asyncio.run(AsyncAdmin("localhost:1").list_topics())


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda calls: calls.delete_topics("abc"), r"topics is a list: \['abc'\]"),
        (lambda calls: calls.describe_topics("abc"), r"topics is a list: \['abc'\]"),
        (lambda calls: calls.describe_topics(b"16 bytes of an id"), "topics is a list"),
        (lambda calls: calls.create_topics("abc"), "topics is a list"),
        (lambda calls: calls.describe_groups("abc"), r"group_ids is a list: \['abc'\]"),
        (lambda calls: calls.delete_groups("abc"), "group_ids is a list"),
        (lambda calls: calls.list_offsets_of_groups("abc"), "group_ids is a list"),
        (lambda calls: calls.remove_members("g", member_ids="abc"), "member_ids is a list"),
        (lambda calls: calls.list_groups(states="Empty"), "states is a list"),
        (lambda calls: calls.describe_transactions("abc"), "transactional_ids is a list"),
        (lambda calls: calls.fence_producers("abc"), "transactional_ids is a list"),
        (lambda calls: calls.describe_api_versions(1), r"broker_ids is a list: \[1\]"),
        (lambda calls: calls.describe_producers(("t", 0)), "'t' is no partition"),
        (lambda calls: calls.delete_group_offsets("g", ("t", 0)), "'t' is no partition"),
        (lambda calls: calls.list_offsets({("t", 0): "latest"}), "nor an OffsetSpec such as"),
    ],
)
def test_one_where_several_are_meant_is_refused_before_a_broker_is_asked(call, said):
    async def main():
        settings = ConnectionSettings(bootstrap_servers="localhost:1")
        admin = AsyncAdmin()
        admin._loop = asyncio.get_running_loop()
        admin._running = Asking(Cluster(settings, system_ports(settings)), 1000)
        await call(admin)

    with pytest.raises((TypeError, ValueError), match=said):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1000", "1000"),
        (1000, "1000"),
        (0.5, "0.5"),
        (True, "true"),
        (False, "false"),
        (None, None),
    ],
)
def test_a_config_is_written_as_brokers_read_it(value, text):
    assert config_text("retention.ms", value) == text


def test_a_config_that_is_neither_text_nor_a_number_is_refused_by_name():
    with pytest.raises(TypeError, match=r"cleanup.policy=\['compact'\] is neither"):
        config_text("cleanup.policy", ["compact"])
