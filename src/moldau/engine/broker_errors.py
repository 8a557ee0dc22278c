"""The error codes of the protocol as exceptions, raised by a broker or by the client.

Codes that callers handle have their own classes; all others are a plain `BrokerError`. Broker and
client use the same class for the same reason: `except RecordTooLarge` catches both. The advice is
for users of a client.
"""

# ruff: noqa: N818 - an exception here is named for what happened, as the protocol names its codes

from __future__ import annotations

from typing import ClassVar

from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode


class BrokerError(ClientError):
    """A broker answered with an error code; common codes have their own classes."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    advice = "Check the broker's log."
    by_code: ClassVar[dict[ErrorCode, type[BrokerError]]] = {}

    def __init__(
        self,
        message: str | None = None,
        *,
        code: ErrorCode | None = None,
        advice: str | None = None,
    ) -> None:
        if code is not None:
            self.code = code
            self.retriable = code.retriable
        super().__init__(message or self.code.text, advice=advice)

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        """Register the class for an error code."""
        super().__init_subclass__()
        if code is not None:
            cls.code = code
            cls.retriable = code.retriable
            cls.by_code[code] = cls

    def __str__(self) -> str:
        return f"{self.code.name}: {super().__str__()}"


def broker_error(code: int, message: str | None = None) -> BrokerError:
    """Return the exception for an error code, of its own class if there is one."""
    known = ErrorCode.of(code)
    if known != code and message is None:
        message = f"The broker sent error code {code}, which this client does not know."
    named = BrokerError.by_code.get(known)
    return BrokerError(message, code=known) if named is None else named(message)


class RequestTimedOut(BrokerError, code=ErrorCode.REQUEST_TIMED_OUT):
    """No response in time; the request may have taken effect."""

    advice = "Try again, raise the timeout, or check whether the brokers are overloaded."


class UnsupportedVersion(BrokerError, code=ErrorCode.UNSUPPORTED_VERSION):
    """Broker and client share no version of this API."""

    advice = "Upgrade the broker, or do not use this feature."


class AuthenticationFailed(BrokerError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """The broker rejected the client's credentials."""

    fatal = True
    advice = "Check the credentials and the SASL mechanism."


class UnsupportedSaslMechanism(BrokerError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The broker does not support the SASL mechanism."""

    fatal = True
    advice = "Use one of the broker's mechanisms (sasl.enabled.mechanisms)."


class UnknownServerError(BrokerError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The broker failed unexpectedly."""

    advice = "Check the broker's log."


class UnknownTopicOrPartition(BrokerError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """The topic or partition does not exist, or the client has no permission to see it."""

    advice = "Create the topic first, or check its name."


class UnknownTopicId(BrokerError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """The topic was deleted, and perhaps created again under another id."""

    advice = "Try again: the client looks the topic up anew."


class InvalidTopic(BrokerError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic name is invalid or may not be used here."""

    advice = "Use up to 249 letters, digits, dots, underscores and dashes; not '.' or '..'."


class TopicAlreadyExists(BrokerError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic with this name exists."""

    advice = "Use the existing topic, or choose another name."


class TopicDeletionDisabled(BrokerError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """The brokers do not delete topics."""

    advice = "Set delete.topic.enable=true on the brokers."


class InvalidPartitions(BrokerError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is invalid."""

    advice = "Use at least one partition, and not fewer than the topic has."


class InvalidReplicationFactor(BrokerError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is below one or above the number of brokers."""

    advice = "Use at least one replica, and not more than there are brokers."


class InvalidReplicaAssignment(BrokerError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The replica assignment is invalid."""

    advice = "Use existing brokers, each once per partition."


class InvalidConfig(BrokerError, code=ErrorCode.INVALID_CONFIG):
    """A configuration of a topic, broker or group is invalid."""

    advice = "Correct the config named in the text."


class InvalidRequest(BrokerError, code=ErrorCode.INVALID_REQUEST):
    """The broker rejected the request as invalid."""

    advice = "Check the arguments, and that the broker supports this request."


class PolicyViolation(BrokerError, code=ErrorCode.POLICY_VIOLATION):
    """A policy of the cluster forbids this."""

    advice = "Ask the administrators of the cluster."


class LeaderNotAvailable(BrokerError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The partition has no leader right now."""

    advice = "Try again: the cluster elects a leader soon, unless all replicas are down."


class NotLeaderOrFollower(BrokerError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """The leader has moved."""

    advice = "Try again: the client looks for the new leader."


class ReplicaNotAvailable(BrokerError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """The replica is not available."""

    advice = "Try again once the broker with the replica is back."


class NotController(BrokerError, code=ErrorCode.NOT_CONTROLLER):
    """The controller has moved."""

    advice = "Try again: the client looks for the new controller."


class FencedLeaderEpoch(BrokerError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """The client's leader epoch is older than the broker's."""

    advice = "Try again: the client looks for the new leader."


class UnknownLeaderEpoch(BrokerError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The client's leader epoch is newer than the broker's."""

    advice = "Try again: the broker learns of the new leader soon."


class StorageFailed(BrokerError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """A disk of the broker failed."""

    advice = "Check the broker's log and disks."


class ThrottlingQuotaExceeded(BrokerError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """The client has exceeded its quota."""

    advice = "Try again later, or ask for a higher quota."


class SecurityDisabled(BrokerError, code=ErrorCode.SECURITY_DISABLED):
    """Security features are off on this broker."""

    advice = "Set authorizer.class.name on the brokers."


class TopicAuthorizationFailed(BrokerError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """The client has no permission on the topic."""

    advice = "Ask for an ACL, or check the client's principal."


class GroupAuthorizationFailed(BrokerError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """The client has no permission on the group."""

    advice = "Ask for an ACL, or check the client's principal."


class ClusterAuthorizationFailed(BrokerError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """The client has no permission on the cluster."""

    advice = "Ask for an ACL, or check the client's principal."


class TransactionalIdAuthorizationFailed(
    BrokerError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
):
    """The client has no permission on the transactional id."""

    fatal = True
    advice = "Ask for an ACL, or check the client's principal."


class RecordTooLarge(BrokerError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record is larger than the producer's max_request_size or the topic's max.message.bytes."""

    advice = "Send a smaller record, or raise both limits."


class CorruptMessage(BrokerError, code=ErrorCode.CORRUPT_MESSAGE):
    """The checksum of a batch is wrong."""

    advice = "Try again; if it persists, check the network and the disks."


class InvalidRecord(BrokerError, code=ErrorCode.INVALID_RECORD):
    """A record is invalid for its topic; compacted topics require keys."""

    advice = "Set a key if the topic is compacted."


class InvalidTimestamp(BrokerError, code=ErrorCode.INVALID_TIMESTAMP):
    """A timestamp is further from the broker's clock than the topic allows."""

    advice = (
        "Correct the clock or the timestamp; see message.timestamp.before.max.ms and .after.max.ms."
    )


class UnsupportedForMessageFormat(BrokerError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The record format of the topic does not support this."""

    advice = "Upgrade the record format of the topic, or do not use this feature."


class UnsupportedCompressionType(BrokerError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The broker does not support this compression type."""

    advice = "Choose another compression_type, or upgrade the broker."


class InvalidRequiredAcks(BrokerError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """acks is not 0, 1 or all."""

    advice = "Set acks to 0, 1 or all."


class NotEnoughReplicas(BrokerError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Fewer replicas are in sync than min.insync.replicas; nothing was written."""

    advice = "Restart failed brokers, or lower min.insync.replicas."


class NotEnoughReplicasAfterAppend(BrokerError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    """The record was written, but too few replicas are in sync."""

    advice = "Restart failed brokers, or lower min.insync.replicas."


class OutOfOrderSequence(BrokerError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The broker expected another sequence number: an earlier batch was lost."""

    advice = "Records are missing in this partition: send them again if you need them."


class DuplicateSequence(BrokerError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The batch was already written."""

    advice = "Do nothing: the records are in the log once."


class UnknownProducerId(BrokerError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The broker has no state of this producer."""

    advice = "Send again; if it persists, create a new producer."


class ProducerFenced(BrokerError, code=ErrorCode.PRODUCER_FENCED):
    """A newer producer uses the same transactional id."""

    fatal = True
    advice = "Close this producer; only one at a time may use a transactional id."


class InvalidProducerEpoch(ProducerFenced, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """A partition's leader knows a newer epoch: the producer is fenced, or its transaction ended.

    Abort to find out: it succeeds if the transaction has timed out, else it raises ProducerFenced.
    """

    fatal = False
    advice = "Abort; if that raises ProducerFenced, close this producer."


class TransactionAbortable(BrokerError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction must be aborted; the producer can start the next one."""

    advice = "Abort the transaction and start it again."


class InvalidTransactionState(BrokerError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this."""

    advice = "Abort the transaction; if that fails, create a new producer."


class InvalidProducerIdMapping(BrokerError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id does not belong to the transactional id."""

    advice = "Abort the transaction; if that fails, create a new producer."


class InvalidTransactionTimeout(BrokerError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is longer than the broker allows."""

    fatal = True
    advice = "Lower transaction_timeout_ms, or raise the broker's transaction.max.timeout.ms."


class ConcurrentTransactions(BrokerError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """The previous transaction is not complete yet."""

    advice = "Try again: the previous transaction ends soon."


class TransactionCoordinatorFenced(BrokerError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """A newer transaction coordinator has taken over."""

    advice = "Try again: the client finds the new coordinator soon."


class TransactionalIdNotFound(BrokerError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """The transactional id does not exist."""

    advice = "Check its name; unused ids expire."


class CoordinatorLoading(BrokerError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator is still loading its state."""

    advice = "Try again: loading takes seconds after a broker starts."


class CoordinatorNotAvailable(BrokerError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """The coordinator is not available."""

    advice = "Try again; if it persists, check that the internal topics have leaders."


class NotCoordinator(BrokerError, code=ErrorCode.NOT_COORDINATOR):
    """The coordinator has moved."""

    advice = "Try again: the client looks for the new coordinator."


class OffsetOutOfRange(BrokerError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset is outside the log: deleted by retention, or beyond its end."""

    advice = "Seek, or set auto_offset_reset to earliest or latest."


class OffsetNotAvailable(BrokerError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """The new leader does not know the high watermark yet."""

    advice = "Try again: the leader learns it soon."


class UnstableOffsetCommit(BrokerError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """An open transaction has uncommitted offsets for the partition."""

    advice = "Try again once the transaction has ended."


class OffsetMetadataTooLarge(BrokerError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """The metadata of a committed offset is too large."""

    advice = "Commit less metadata, or raise offset.metadata.max.bytes."


class IllegalGeneration(BrokerError, code=ErrorCode.ILLEGAL_GENERATION):
    """The group has rebalanced since the member joined."""

    advice = "Continue to poll: the member rejoins by itself."


class UnknownMember(BrokerError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The group does not know this member."""

    advice = "Continue to poll: the member rejoins by itself."


class RebalanceInProgress(BrokerError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The group is rebalancing."""

    advice = "Continue to poll: the member rejoins by itself."


class MemberIdRequired(BrokerError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """The member must rejoin with its new member id (KIP-394)."""

    advice = "Continue to poll: the member rejoins by itself."


class FencedInstanceId(BrokerError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another member has taken over this group_instance_id."""

    fatal = True
    advice = "Give each member its own group_instance_id."


class GroupMaxSizeReached(BrokerError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group is full."""

    fatal = True
    advice = "Use fewer members, or raise group.max.size."


class InconsistentGroupProtocol(BrokerError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The member supports no assignor of the group."""

    advice = "Use an assignor that all members support."


class InvalidGroupId(BrokerError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id is invalid."""

    fatal = True
    advice = "Use a group id that is not empty."


class InvalidSessionTimeout(BrokerError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """session_timeout_ms is outside the broker's limits."""

    fatal = True
    advice = "Check the broker's group.min.session.timeout.ms and group.max.session.timeout.ms."


class GroupIdNotFound(BrokerError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """The group does not exist."""

    advice = "Check the name; a group without members and offsets is deleted."


class NonEmptyGroup(BrokerError, code=ErrorCode.NON_EMPTY_GROUP):
    """The group still has members."""

    advice = "Stop its consumers first."


class GroupSubscribedToTopic(BrokerError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """The group is subscribed to the topic."""

    advice = "Stop its consumers first."


class ReassignmentInProgress(BrokerError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """The partitions are being reassigned."""

    advice = "Wait for the reassignment to end, or cancel it."


class NoReassignmentInProgress(BrokerError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """No reassignment is in progress."""

    advice = "Do nothing: it has ended or never started."


class ElectionNotNeeded(BrokerError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The partition already has the requested leader."""

    advice = "Do nothing."


class ResourceNotFound(BrokerError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """The resource does not exist."""

    advice = "Check its name."
