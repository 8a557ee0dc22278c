"""What is asked of the real machine, and the command as a whole on it."""

import os
import socket
import subprocess
import sys

import pytest

from kits.cli_kit import moldau
from moldau.cli.doctor.mounts import file_system_of
from moldau.cli.doctor.this_machine import ThisMachine

MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw - ext4 /dev/vda rw
30 27 0:30 / /data rw shared:1 - ext4 /dev/vdb rw
31 30 0:31 / /data rw - xfs /dev/vdc rw
32 27 0:32 / /with\\040space rw - nfs4 host:/export rw
garbled
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/database", "ext4"),
        ("/data", "xfs"),
        ("/data/a/b", "xfs"),
        ("/with space/x", "nfs4"),
        ("/proc/1", "proc"),
    ],
)
def test_the_mount_nearest_to_a_folder_names_its_file_system(path, kind):
    assert file_system_of(path, MOUNTS) == kind


def test_without_a_table_of_mounts_the_file_system_is_unknown():
    assert file_system_of("/data", "") == "unknown"


def test_a_folder_is_tried_and_left_as_it_was(tmp_path):
    found = ThisMachine().folder(str(tmp_path))
    assert found.is_folder
    assert found.is_writable
    assert found.can_send_files
    assert found.newest_file_s is None
    assert 0 < found.free_bytes <= found.size_bytes
    assert list(tmp_path.iterdir()) == []


def test_of_a_folder_that_is_not_there_the_one_above_is_told(tmp_path):
    found = ThisMachine().folder(str(tmp_path / "a" / "b"))
    assert (found.existing, found.is_folder) == (str(tmp_path), True)
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("x")
    found = ThisMachine().folder(str(tmp_path / "file" / "logs"))
    assert (found.existing, found.is_folder) == (str(tmp_path / "file"), False)


def test_a_lock_of_another_process_is_seen(tmp_path):
    lock = tmp_path / ".lock"
    lock.touch()
    assert not ThisMachine().folder(str(tmp_path)).is_locked
    program = (
        "import fcntl, sys\nfile = open(sys.argv[1], 'r+b')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\nprint(flush=True)\nsys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        holder.stdout.readline()
        assert ThisMachine().folder(str(tmp_path)).is_locked
        holder.stdin.close()


def test_a_port_that_somebody_has_is_told():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "in use" in ThisMachine().why_not_bound("127.0.0.1", port)
    assert ThisMachine().why_not_bound("", 0) is None
    assert ThisMachine().why_not_bound("192.0.2.1", 0) is not None


def test_what_is_installed_is_told():
    machine = ThisMachine()
    assert machine.installed_version("click") is not None
    assert machine.installed_version("no-such-package") is None
    assert machine.python().version == sys.version_info[:3]
    assert machine.clock().installed_s <= machine.clock().now_s
    assert machine.open_files_max() > 0
    assert machine.has_process_handles() == hasattr(os, "pidfd_open")
    assert machine.is_known_host("127.0.0.1")


def test_the_command_reads_the_settings_that_serve_reads(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "server.properties"
        file.write_text(f"log.dirs={tmp_path}/logs\nlisteners=PLAINTEXT://127.0.0.1:{port}\n")
        ran = moldau("doctor", "--config", file, "-o", "json")
        assert ran.status == 1
        found = {one["check"]: one for one in ran.data}
        assert found["listener PLAINTEXT"]["result"] == "problem"
        assert found[f"directory {tmp_path}/logs"]["result"] == "ok"
        ran = moldau("doctor", "--data", tmp_path, "--listen", "127.0.0.1:0", "-o", "json")
    assert ran.status == 0, ran.out
    ports = ("--override", "moldau.metrics.listen=192.0.2.1:1")
    ran = moldau("doctor", "--data", tmp_path, "--listen", "127.0.0.1:0", *ports, "-o", "name")
    assert (ran.status, "metrics" in ran.out.split("\n")) == (1, True)


def test_settings_that_cannot_be_are_refused_as_by_serve():
    ran = moldau("doctor", "--override", "log.segment.bytes=x")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("moldau: Invalid value x for configuration log.segment.bytes")
