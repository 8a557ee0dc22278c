"""The client, imported when it is first used: write `client.AsyncAdmin`, also in annotations.

Help and completion do not need the client, and it takes longer to load than everything else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.client.admin import *  # noqa: F403
    from moldau.client.assignors.hash_order import *  # noqa: F403
    from moldau.client.consumer import *  # noqa: F403
    from moldau.client.errors import *  # noqa: F403
    from moldau.client.producer import *  # noqa: F403
    from moldau.client.records import *  # noqa: F403
else:
    # Each of these loads most of the client, so they are not searched for other names.
    _MODULES = {
        "AsyncConsumer": "consumer",
        "AsyncProducer": "producer",
        "Consumer": "consumer",
        "Producer": "producer",
    }
    _SEARCHED = ("records", "errors", "assignors.hash_order", "admin")

    def __getattr__(name: str) -> Any:
        for module in (_MODULES[name],) if name in _MODULES else _SEARCHED:
            found = getattr(import_module(f"moldau.client.{module}"), name, None)
            if found is not None:
                globals()[name] = found
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
