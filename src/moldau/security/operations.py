"""What can be allowed or denied, by Kafka's codes."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Operation(IntEnum):
    """Something a client may want to do to a resource."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def bit_field(operations: Iterable[Operation]) -> int:
    """Write a set of operations as the protocol does: one bit each (KIP-430)."""
    return sum(1 << operation for operation in operations)


CLUSTER_OPERATIONS = frozenset(
    {
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    }
)

TOPIC_OPERATIONS = frozenset(
    {
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
)

GROUP_OPERATIONS = frozenset(
    {
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
)
