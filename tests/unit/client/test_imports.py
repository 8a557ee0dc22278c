"""Importing the client costs what is used of it, and never the broker."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import moldau
from moldau import client
from moldau.client import records

STRANGERS = ("click", "rich", "prometheus_client", "moldau.server", "moldau.storage", "moldau.cli")

USED_BY_SOME = (
    "cramjam",
    "lz4",
    "zstandard",
    "json",
    "uuid",
    "random",
    "datetime",
    "numpy",
    "pyarrow",
    "moldau.client.admin",
    "moldau.client.assignors.choice",
    "moldau.client.producing.threaded",
    "moldau.client.producing.transactions",
    "moldau.protocol.messages.transactions",
    "moldau.records.legacy",
)


def loaded_after(code):
    listing = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, timeout=30, check=True
    )
    return set(done.stdout.split())


@pytest.mark.process
def test_importing_the_package_loads_nothing_of_it():
    ours = {name for name in loaded_after("import moldau") if name.startswith("moldau")}
    assert ours == {"moldau"}


@pytest.mark.process
def test_the_engine_loads_no_broker_and_no_command_line():
    loaded = loaded_after("import moldau.engine.cluster, moldau.engine.portal")
    assert not [name for name in STRANGERS if name in loaded]


@pytest.mark.process
def test_producer_and_consumer_load_no_codec_and_nothing_that_only_some_use():
    loaded = loaded_after("from moldau import AsyncConsumer, AsyncProducer")
    assert "moldau.client.producing.core" in loaded
    assert not [name for name in USED_BY_SOME if name in loaded]


def test_both_packages_offer_the_same_names():
    assert set(moldau.__all__) - {"__version__"} == set(client.__all__)
    assert set(client._HOMES) == set(client.__all__)
    assert set(client.__all__) <= set(dir(moldau))


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(moldau, "Nonsense")
    assert not hasattr(client, "Nonsense")


def test_a_name_is_the_same_object_wherever_it_is_taken_from():
    assert moldau.TopicPartition is client.TopicPartition is records.TopicPartition


INTERNAL = {"become_copy", "go_on", "hold_still", "place", "report", "watch", "ports"}


@pytest.mark.parametrize("name", [name for name in client.__all__ if "Error" not in name])
def test_the_public_face_has_no_internal_names(name):
    public = getattr(moldau, name)
    assert not INTERNAL & set(dir(public))
    if "Commit" not in name and "Timestamp" not in name:
        assert not INTERNAL & set(inspect.signature(public).parameters)
