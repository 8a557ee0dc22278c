"""A file that identifies a process, so that later commands find this process and no other.

It holds the number of the process, its start time and its command line.
"""

from __future__ import annotations

from pathlib import Path

from moldau.base.errors import UserError
from moldau.cli.operations.known_process import KnownProcess, identity_of, identity_of_child


def write_pid_file(file: Path, process_id: int) -> None:
    """Write the file of a child that was just started.

    The file is replaced in one step: another command may read it now.
    """
    new = file.with_suffix(".tmp")
    new.write_bytes(b"%d\n" % process_id + identity_of_child(process_id))
    new.replace(file)


def find_process(file: Path) -> KnownProcess | None:
    """Find the process of a file; None if it does not run. UserError if the file is unreadable."""
    try:
        number, _, identity = file.read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    if not number.isdigit():
        return None
    process_id = int(number)
    return KnownProcess.find(process_id, lambda: identity_of(process_id) == identity != b"")
