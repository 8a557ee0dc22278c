"""Imports asyncio without its TLS, for the process of a broker.

Asyncio loads OpenSSL if it is there: more than four megabytes of memory in each broker, a tenth of
what one has when it is idle. It also does without, since Python can be built without OpenSSL. The
streams of a broker are its own (`moldau.transport`), so it has no use for the TLS of asyncio.

To be imported before asyncio. Where that is there already, or `ssl` is, nothing is changed.
Afterwards `ssl` can be imported as ever.
"""

from __future__ import annotations

import sys
from typing import Any, cast

if "ssl" not in sys.modules and "asyncio" not in sys.modules:
    cast("dict[str, Any]", sys.modules)["ssl"] = None  # importing it fails, as where it is missing
    try:
        import asyncio  # noqa: F401 - the first import is the one that counts
    finally:
        del sys.modules["ssl"]
