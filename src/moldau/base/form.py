"""Whether this Moldau is compiled: the wheel of `make wheel` has machine code for some modules.

Both forms come from the same sources and do the same (ADR 0010); who looks for a cause of anything
wants to know which of them ran.
"""

from __future__ import annotations

from importlib.util import find_spec

_ONE_OF_THEM = "moldau.protocol.framing"


def is_compiled() -> bool:
    """Tell it, without importing what it depends on."""
    spec = find_spec(_ONE_OF_THEM)
    return spec is not None and not str(spec.origin).endswith(".py")
