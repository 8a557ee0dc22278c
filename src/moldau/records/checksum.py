"""CRC-32C, straight from the compiled module of the `crc32c` package.

The package's own `__init__` looks up its version and prepares a command line, which takes longer to
import than the whole codec: a command or a client that starts up would pay for it every time. So
the compiled module is found where the package lies and loaded by itself; where a release of the
package is laid out in another way, the package is imported as usual.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any, Final


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    inner = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if inner is not None and inner.loader is not None:
        module: Any = module_from_spec(inner)
        inner.loader.exec_module(module)
        found: Callable[..., int] = module.crc32c
        return found
    from crc32c import crc32c as usual  # noqa: PLC0415 - only where the way above does not lead

    return usual


crc32c: Final[Callable[..., int]] = _load()
"""`crc32c(data, start=0)`: the checksum of a buffer, going on from another if one is given."""
