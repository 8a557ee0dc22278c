"""The setting `zookeeper.connect`."""

from __future__ import annotations

import pytest

from moldau.base.errors import ConfigError
from moldau.cluster.zookeeper.client.connect_string import ConnectString, parse_connect_string


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("localhost:2181", [("localhost", 2181)], ""),
        ("zk", [("zk", 2181)], ""),
        ("zk1:1, zk2:2 ,zk3", [("zk1", 1), ("zk2", 2), ("zk3", 2181)], ""),
        ("zk:2181/", [("zk", 2181)], ""),
        ("zk1:2181,zk2:2181/kafka", [("zk1", 2181), ("zk2", 2181)], "/kafka"),
        (" zk/kafka/production/ ", [("zk", 2181)], "/kafka/production"),
        ("[::1]:2182,[fe80::1]/k", [("::1", 2182), ("fe80::1", 2181)], "/k"),
    ],
)
def test_servers_and_chroot(text, servers, chroot):
    assert parse_connect_string(text) == ConnectString(tuple(servers), chroot)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'' names no host"),
        ("zk1:2181,", "'' names no host"),
        (":2181", "':2181' names no host"),
        ("zk:", "'' is not a port"),
        ("zk:port", "'port' is not a port"),
        ("zk:0", "'0' is not a port"),
        ("zk:65536", "'65536' is not a port"),
        ("::1:2181", "'::1:2181' names no host"),
        ("[::1]2181", "names no host"),
        ("zk/kafka//x", "/kafka//x is not a path"),
        ("zk/../x", "/../x is not a path"),
        ("zk1..example:2181", "'zk1..example:2181' names no host"),
        ("zk 1:2181", "'zk 1:2181' names no host"),
        (f"{'x' * 64}:2181", "names no host"),
    ],
)
def test_what_cannot_be_is_told(text, reason):
    with pytest.raises(ConfigError) as told:
        parse_connect_string(text)
    assert str(told.value).startswith(f"zookeeper.connect={text}: ")
    assert reason in str(told.value)


@pytest.mark.parametrize("text", ["z\0k:1", "zk\n:1", "zk/a\nb", "zk/\ud800", "zk:" + "9" * 5000])
def test_whatever_it_is_it_is_told_in_one_short_line(text):
    with pytest.raises(ConfigError) as told:
        parse_connect_string(text)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1000
