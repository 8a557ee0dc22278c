"""Which settings a client has, by the names that files and options use."""

from __future__ import annotations

from moldau.cli.operations.connecting import has_setting
from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import Consumer
from moldau.client.producer import Producer


def test_a_setting_is_known_by_kafkas_name():
    assert has_setting(AsyncAdmin, "bootstrap.servers")
    assert has_setting(Consumer, "group.id")
    assert has_setting(Producer, "linger.ms")
    assert not has_setting(AsyncAdmin, "group.id")
    assert not has_setting(Producer, "no.such.setting")
