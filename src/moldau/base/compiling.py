"""What the compiler of `make wheel` is told beside types (ADR 0010).

mypyc reads it from the source. It is needed to build, not to run, so here is what runs instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_: object) -> Callable[[type], type]:
        """Leave the class as it is."""
        return lambda kind: kind


__all__ = ["mypyc_attr"]
