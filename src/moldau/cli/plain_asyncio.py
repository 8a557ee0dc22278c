"""Imports asyncio without its TLS, for the process of a broker.

Asyncio imports `ssl` if it can, and OpenSSL takes several megabytes, about a tenth of an idle
broker. Asyncio also works without it, because Python can be built without OpenSSL. A broker does
not need the TLS of asyncio: its streams are its own (`moldau.transport`).

Import this before asyncio. If asyncio or `ssl` is imported already, it changes nothing. Afterwards
`ssl` can be imported as usual.
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
