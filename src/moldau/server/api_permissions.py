"""Which permissions each API needs, by API key, as Kafka's brokers ask for them.

`tests/golden/api_permissions.tsv` is Kafka's table, and a test compares the two. Who checks a
permission, and what a denial answers, is said in `server/network/permissions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.security.operations import AclOperation, AclResourceType
from moldau.server.network.permissions import (
    Check,
    Permission,
    on_cluster,
    on_each,
    on_one,
    unchecked,
)

(
    READ,
    WRITE,
    CREATE,
    DELETE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
    CREATE_TOKENS,
    DESCRIBE_TOKENS,
    TWO_PHASE_COMMIT,
) = AclOperation
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = AclResourceType

READ_GROUP: Final = on_one(READ, GROUP, "group_id")
"""What every request of a member needs."""
WRITE_TRANSACTION: Final = on_one(WRITE, TRANSACTIONAL_ID, "transactional_id")
"""Not asked for where the request names no transactional id."""
PREPARE_TRANSACTION: Final = Permission(
    TWO_PHASE_COMMIT,
    TRANSACTIONAL_ID,
    Check.BY_DISPATCH,
    lambda request: request.transactional_id if request.enable_2pc else None,
)

API_PERMISSIONS: Final[Mapping[int, tuple[Permission, ...]]] = {
    # Produce: the errors stand with the partitions.
    0: (
        unchecked(WRITE, TRANSACTIONAL_ID),
        unchecked(IDEMPOTENT_WRITE, CLUSTER),
        unchecked(WRITE, TOPIC),
    ),
    # Fetch: a follower needs the cluster's permission, a consumer that of each topic.
    1: (on_each(CLUSTER_ACTION, CLUSTER), unchecked(READ, TOPIC)),
    # ListOffsets
    2: (unchecked(DESCRIBE, TOPIC),),
    # Metadata: a topic is created with the cluster's permission or its own.
    3: (
        unchecked(DESCRIBE, TOPIC),
        unchecked(CREATE, CLUSTER),
        unchecked(CREATE, TOPIC),
        unchecked(DESCRIBE, CLUSTER),
    ),
    # OffsetCommit: the errors stand with the partitions, that of the group as well.
    8: (unchecked(READ, GROUP), unchecked(READ, TOPIC)),
    # OffsetFetch, FindCoordinator: many groups in one request
    9: (unchecked(DESCRIBE, GROUP), unchecked(DESCRIBE, TOPIC)),
    10: (
        unchecked(DESCRIBE, GROUP),
        unchecked(DESCRIBE, TRANSACTIONAL_ID),
        unchecked(CLUSTER_ACTION, CLUSTER),
    ),
    # JoinGroup, Heartbeat, LeaveGroup, SyncGroup
    11: (READ_GROUP,),
    12: (READ_GROUP,),
    13: (READ_GROUP,),
    14: (READ_GROUP,),
    # DescribeGroups
    15: (on_each(DESCRIBE, GROUP),),
    # ListGroups: all groups with the cluster's permission, else those with their own
    16: (unchecked(DESCRIBE, CLUSTER), unchecked(DESCRIBE, GROUP)),
    # SaslHandshake, ApiVersions: before anybody is known
    17: (),
    18: (),
    # CreateTopics, DeleteTopics: with the cluster's permission or that of each topic
    19: (unchecked(CREATE, CLUSTER), unchecked(CREATE, TOPIC), unchecked(DESCRIBE_CONFIGS, TOPIC)),
    20: (unchecked(DELETE, CLUSTER), unchecked(DESCRIBE, TOPIC), unchecked(DELETE, TOPIC)),
    # DeleteRecords
    21: (unchecked(DELETE, TOPIC),),
    # InitProducerId: without a transactional id the cluster's permission, or WRITE on any topic
    22: (
        WRITE_TRANSACTION,
        PREPARE_TRANSACTION,
        unchecked(IDEMPOTENT_WRITE, CLUSTER),
        unchecked(WRITE, TOPIC),
    ),
    # OffsetForLeaderEpoch: the cluster's permission, or that of each topic
    23: (unchecked(CLUSTER_ACTION, CLUSTER), unchecked(DESCRIBE, TOPIC)),
    # AddPartitionsToTxn: brokers ask for many transactions, with the cluster's permission
    24: (
        unchecked(CLUSTER_ACTION, CLUSTER),
        unchecked(WRITE, TRANSACTIONAL_ID),
        unchecked(WRITE, TOPIC),
    ),
    # AddOffsetsToTxn, EndTxn
    25: (WRITE_TRANSACTION, READ_GROUP),
    26: (WRITE_TRANSACTION,),
    # WriteTxnMarkers: one of the two
    27: (unchecked(ALTER, CLUSTER), unchecked(CLUSTER_ACTION, CLUSTER)),
    # TxnOffsetCommit: the errors stand with the partitions.
    28: (unchecked(WRITE, TRANSACTIONAL_ID), unchecked(READ, GROUP), unchecked(READ, TOPIC)),
    # DescribeAcls, CreateAcls, DeleteAcls
    29: (on_cluster(DESCRIBE),),
    30: (unchecked(ALTER, CLUSTER),),
    31: (unchecked(ALTER, CLUSTER),),
    # DescribeConfigs, AlterConfigs: brokers and their loggers belong to the cluster.
    32: (
        unchecked(DESCRIBE_CONFIGS, CLUSTER),
        unchecked(DESCRIBE_CONFIGS, TOPIC),
        unchecked(DESCRIBE_CONFIGS, GROUP),
    ),
    33: (
        unchecked(ALTER_CONFIGS, CLUSTER),
        unchecked(ALTER_CONFIGS, TOPIC),
        unchecked(ALTER_CONFIGS, GROUP),
    ),
    # AlterReplicaLogDirs, DescribeLogDirs
    34: (unchecked(ALTER, CLUSTER),),
    35: (unchecked(DESCRIBE, CLUSTER),),
    # SaslAuthenticate: it tells who asks.
    36: (),
    # CreatePartitions
    37: (unchecked(ALTER, TOPIC),),
    # Delegation tokens: one's own need no permission; only owners and renewers renew and expire.
    38: (unchecked(CREATE_TOKENS, USER),),
    39: (),
    40: (),
    41: (unchecked(DESCRIBE, DELEGATION_TOKEN), unchecked(DESCRIBE_TOKENS, USER)),
    # DeleteGroups
    42: (on_each(DELETE, GROUP),),
    # ElectLeaders: its first version has no error code of its own.
    43: (unchecked(ALTER, CLUSTER),),
    # IncrementalAlterConfigs: levels of loggers need CLUSTER_ACTION.
    44: (
        unchecked(ALTER_CONFIGS, CLUSTER),
        unchecked(ALTER_CONFIGS, TOPIC),
        unchecked(ALTER_CONFIGS, GROUP),
        unchecked(CLUSTER_ACTION, CLUSTER),
    ),
    # AlterPartitionReassignments, ListPartitionReassignments
    45: (on_cluster(ALTER),),
    46: (on_cluster(DESCRIBE),),
    # OffsetDelete
    47: (on_one(DELETE, GROUP, "group_id"), unchecked(READ, TOPIC)),
    # DescribeClientQuotas, AlterClientQuotas
    48: (on_cluster(DESCRIBE_CONFIGS),),
    49: (unchecked(ALTER_CONFIGS, CLUSTER),),
    # DescribeUserScramCredentials, AlterUserScramCredentials
    50: (on_cluster(DESCRIBE),),
    51: (unchecked(ALTER, CLUSTER),),
    # DescribeQuorum, UpdateFeatures
    55: (on_cluster(DESCRIBE),),
    57: (on_cluster(ALTER),),
    # DescribeCluster: without the permission only the authorized operations are left out.
    60: (unchecked(DESCRIBE, CLUSTER),),
    # DescribeProducers
    61: (unchecked(READ, TOPIC),),
    # UnregisterBroker
    64: (on_cluster(ALTER),),
    # DescribeTransactions, ListTransactions
    65: (unchecked(DESCRIBE, TRANSACTIONAL_ID), unchecked(DESCRIBE, TOPIC)),
    66: (unchecked(DESCRIBE, TRANSACTIONAL_ID),),
    # ConsumerGroupHeartbeat, ConsumerGroupDescribe: they name topics of the group.
    68: (READ_GROUP, unchecked(DESCRIBE, TOPIC)),
    69: (unchecked(DESCRIBE, GROUP), unchecked(DESCRIBE, TOPIC)),
    # ListConfigResources
    74: (on_cluster(DESCRIBE_CONFIGS),),
    # DescribeTopicPartitions
    75: (unchecked(DESCRIBE, TOPIC),),
    # ShareGroupHeartbeat, ShareGroupDescribe, ShareFetch, ShareAcknowledge
    76: (READ_GROUP, unchecked(DESCRIBE, TOPIC)),
    77: (unchecked(DESCRIBE, GROUP), unchecked(DESCRIBE, TOPIC)),
    78: (READ_GROUP, unchecked(READ, TOPIC)),
    79: (READ_GROUP, unchecked(READ, TOPIC)),
    # AddRaftVoter, RemoveRaftVoter
    80: (on_cluster(ALTER),),
    81: (on_cluster(ALTER),),
    # The state of share groups, between brokers: the errors stand with the partitions.
    83: (unchecked(CLUSTER_ACTION, CLUSTER),),
    84: (unchecked(CLUSTER_ACTION, CLUSTER),),
    85: (unchecked(CLUSTER_ACTION, CLUSTER),),
    86: (unchecked(CLUSTER_ACTION, CLUSTER),),
    87: (unchecked(CLUSTER_ACTION, CLUSTER),),
    # StreamsGroupHeartbeat, StreamsGroupDescribe
    88: (
        READ_GROUP,
        unchecked(DESCRIBE, TOPIC),
        unchecked(CREATE, CLUSTER),
        unchecked(CREATE, TOPIC),
    ),
    89: (unchecked(DESCRIBE, GROUP), unchecked(DESCRIBE, TOPIC)),
    # DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets
    90: (unchecked(DESCRIBE, GROUP), unchecked(DESCRIBE, TOPIC)),
    91: (READ_GROUP, unchecked(READ, TOPIC)),
    92: (on_one(DELETE, GROUP, "group_id"), unchecked(READ, TOPIC)),
    # StreamsGroupTopologyDescriptionUpdate
    93: (READ_GROUP,),
    # UnregisterController
    94: (on_cluster(ALTER),),
}
