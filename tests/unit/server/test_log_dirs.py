"""What DescribeLogDirs tells."""

from __future__ import annotations

from pathlib import Path

from kits import log_kit
from kits.slicing import finished
from moldau.protocol.messages.log_dirs import DescribeLogDirsRequest
from moldau.server.handlers.log_dirs import LogDirHandler
from moldau.storage.manager import LogManager
from moldau.storage.resources import Resources


def test_a_relative_directory_is_told_as_an_absolute_one():
    disk = log_kit.Broker()
    resources = Resources(disk.disk, log_kit.HandClock(), None)
    handler = LogDirHandler(LogManager(resources, ("some/data", "/other")), disk.disk)
    answer = finished(handler(DescribeLogDirsRequest(None), None))
    assert [one.log_dir for one in answer.results] == [str(Path.cwd() / "some/data"), "/other"]


def test_a_cordoned_directory_is_told():
    disk = log_kit.Broker()
    (directory,) = disk.manager.directories
    for cordoned in (frozenset({directory.path}), frozenset()):
        disk.manager.cordoned = cordoned
        answer = finished(
            LogDirHandler(disk.manager, disk.disk)(DescribeLogDirsRequest(None), None)
        )
        assert [one.is_cordoned for one in answer.results] == [bool(cordoned)]
