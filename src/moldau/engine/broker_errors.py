"""The codes of the protocol as exceptions: said by a broker, or found out on this side.

Codes that callers act on have a class of their own; all others are a plain `BrokerError`. What a
broker refuses and what a client refuses by itself for the same reason have one name: `except
RecordTooLarge` catches both. The advice is for people who use a client.
"""

# ruff: noqa: N818 - an exception here is named for what happened, as the protocol names its codes

from __future__ import annotations

from typing import ClassVar

from moldau.engine.errors import ClientError
from moldau.protocol.errors import ErrorCode


class BrokerError(ClientError):
    """A code of the protocol. Codes that users act on have a class of their own below."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    advice = "The broker's log may say more."
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
        """Make the class the one that is raised for a code."""
        super().__init_subclass__()
        if code is not None:
            cls.code = code
            cls.retriable = code.retriable
            cls.by_code[code] = cls

    def __str__(self) -> str:
        return f"{self.code.name}: {super().__str__()}"


def broker_error(code: int, message: str | None = None) -> BrokerError:
    """Make the exception for a code: of its own class where there is one."""
    known = ErrorCode.of(code)
    if known != code and message is None:
        message = f"The broker sent error code {code}, which this client does not know."
    named = BrokerError.by_code.get(known)
    return BrokerError(message, code=known) if named is None else named(message)


class RequestTimedOut(BrokerError, code=ErrorCode.REQUEST_TIMED_OUT):
    """No answer in time, from the broker or within it; the request may have taken effect."""

    advice = "Try again, allow more time, or look whether the brokers are overloaded."


class UnsupportedVersion(BrokerError, code=ErrorCode.UNSUPPORTED_VERSION):
    """Broker and client have no version of this API in common."""

    advice = "Upgrade the broker, or do without what this call needs."


class AuthenticationFailed(BrokerError, code=ErrorCode.SASL_AUTHENTICATION_FAILED):
    """The broker did not accept who the client says it is."""

    fatal = True
    advice = "Check the credentials and the mechanism."


class UnsupportedSaslMechanism(BrokerError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM):
    """The broker does not offer the mechanism."""

    fatal = True
    advice = "Choose one of those that the broker offers (sasl.enabled.mechanisms)."


class UnknownServerError(BrokerError, code=ErrorCode.UNKNOWN_SERVER_ERROR):
    """The broker met an error it has no code for."""

    advice = "Look into the broker's log."


class UnknownTopicOrPartition(BrokerError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """There is no such topic or partition, or this client may not know of it."""

    advice = "Create the topic first, or check its name."


class UnknownTopicId(BrokerError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """The topic has been deleted, and perhaps created again under another id."""

    advice = "Try again: the client looks the topic up anew."


class InvalidTopic(BrokerError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """The topic name is invalid or may not be used here."""

    advice = "Up to 249 letters, digits, dots, underscores and dashes; not '.' or '..'."


class TopicAlreadyExists(BrokerError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of this name exists."""

    advice = "Use the topic that is there, or choose another name."


class TopicDeletionDisabled(BrokerError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """The brokers do not delete topics."""

    advice = "Set delete.topic.enable=true on the brokers."


class InvalidPartitions(BrokerError, code=ErrorCode.INVALID_PARTITIONS):
    """The number of partitions is invalid."""

    advice = "At least one, and never fewer than there are."


class InvalidReplicationFactor(BrokerError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """The replication factor is below one or above the number of brokers."""

    advice = "Ask for one to as many replicas as there are brokers."


class InvalidReplicaAssignment(BrokerError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """The replica assignment is invalid."""

    advice = "Name brokers that are there, each once for a partition."


class InvalidConfig(BrokerError, code=ErrorCode.INVALID_CONFIG):
    """A configuration of a topic, broker or group is invalid."""

    advice = "Correct the name or the value; the error says which."


class InvalidRequest(BrokerError, code=ErrorCode.INVALID_REQUEST):
    """The request contradicts itself or the protocol."""

    advice = "Check the arguments; where they are right, the broker does not know what was asked."


class PolicyViolation(BrokerError, code=ErrorCode.POLICY_VIOLATION):
    """A policy of the cluster forbids it."""

    advice = "Ask whoever runs the cluster what its policy allows."


class LeaderNotAvailable(BrokerError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """The partition has no leader right now."""

    advice = "Try again: a leader is elected soon, unless all replicas are down."


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
    """The client knows an older leader than the broker."""

    advice = "Try again: the client looks for the new leader."


class UnknownLeaderEpoch(BrokerError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The client knows a newer leader than the broker."""

    advice = "Try again: the broker learns of the new leader soon."


class StorageFailed(BrokerError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """A disk of the broker failed."""

    advice = "Look at the broker's log and its disks."


class ThrottlingQuotaExceeded(BrokerError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """The quota is used up for now."""

    advice = "Try again later, or have the quota raised."


class SecurityDisabled(BrokerError, code=ErrorCode.SECURITY_DISABLED):
    """Security features are off on this broker."""

    advice = "Set authorizer.class.name on the brokers."


class TopicAuthorizationFailed(BrokerError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED):
    """No permission on the topic."""

    advice = "Have an ACL added that allows it, or check who the client logs in as."


class GroupAuthorizationFailed(BrokerError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED):
    """No permission on the group."""

    advice = "Have an ACL added that allows it, or check who the client logs in as."


class ClusterAuthorizationFailed(BrokerError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
    """No permission on the cluster."""

    advice = "Have an ACL added that allows it, or check who the client logs in as."


class TransactionalIdAuthorizationFailed(
    BrokerError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
):
    """No permission on the transactional id."""

    fatal = True
    advice = "Have an ACL added that allows it, or check who the client logs in as."


class RecordTooLarge(BrokerError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """A record is larger than the producer's max_request_size or the topic's max.message.bytes."""

    advice = "Send less in one record, or raise both limits."


class CorruptMessage(BrokerError, code=ErrorCode.CORRUPT_MESSAGE):
    """A batch does not have its own checksum."""

    advice = "Try again; if it stays, the network or a disk damages records."


class InvalidRecord(BrokerError, code=ErrorCode.INVALID_RECORD):
    """A record breaks a rule of its topic; in a compacted one it needs a key."""

    advice = "Give the record a key where its topic is compacted."


class InvalidTimestamp(BrokerError, code=ErrorCode.INVALID_TIMESTAMP):
    """A timestamp is further from the broker's clock than the topic allows."""

    advice = (
        "Set the clock, or the timestamp; the topic has message.timestamp.before.max.ms "
        "and .after.max.ms."
    )


class UnsupportedForMessageFormat(BrokerError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The record format of the topic cannot do this."""

    advice = "Upgrade the record format of the topic, or do without what was asked."


class UnsupportedCompressionType(BrokerError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """The compression is not known in the version that was agreed on."""

    advice = "Choose another compression_type, or upgrade the broker."


class InvalidRequiredAcks(BrokerError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """Required acknowledgements are 0, 1 or all."""

    advice = "Set acks to 0, 1 or all."


class NotEnoughReplicas(BrokerError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."""

    advice = "Bring brokers back, or lower min.insync.replicas."


class NotEnoughReplicasAfterAppend(BrokerError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    """The record was written, then too few replicas were in sync."""

    advice = "Bring brokers back, or lower min.insync.replicas."


class OutOfOrderSequence(BrokerError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """The broker expected another sequence number: a batch before this one was lost."""

    advice = "The records of this partition are incomplete: decide whether to send them again."


class DuplicateSequence(BrokerError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """The batch had been written before."""

    advice = "Nothing is to be done: the records are there once."


class UnknownProducerId(BrokerError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The broker holds no state of this producer any more."""

    advice = "Send again; make a new producer if it stays."


class ProducerFenced(BrokerError, code=ErrorCode.PRODUCER_FENCED):
    """A newer producer uses the same transactional id."""

    fatal = True
    advice = "Close this producer; only one may use a transactional id."


class InvalidProducerEpoch(ProducerFenced, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """A partition's leader knows a newer epoch: the producer is fenced, or its transaction ended.

    An abort tells which: after a transaction that timed out it heals, else it is ProducerFenced.
    """

    fatal = False
    advice = "Abort: if that raises ProducerFenced too, close this producer."


class TransactionAbortable(BrokerError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """The transaction must be aborted; the producer may go on with the next."""

    advice = "Abort the transaction and begin it again."


class InvalidTransactionState(BrokerError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this."""

    advice = "Abort the transaction; if that fails too, make a new producer."


class InvalidProducerIdMapping(BrokerError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The producer id does not belong to the transactional id."""

    advice = "Abort the transaction; if that fails too, make a new producer."


class InvalidTransactionTimeout(BrokerError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """The transaction timeout is longer than the broker allows."""

    fatal = True
    advice = "Lower transaction_timeout_ms, or raise the broker's transaction.max.timeout.ms."


class ConcurrentTransactions(BrokerError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """The transaction before is still being completed."""

    advice = "Try again: the transaction before ends soon."


class TransactionCoordinatorFenced(BrokerError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """A newer transaction coordinator has taken over."""

    advice = "Try again: the new coordinator is found soon."


class TransactionalIdNotFound(BrokerError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """There is no such transactional id."""

    advice = "Check its name; an id that was not used for long has expired."


class CoordinatorLoading(BrokerError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator is still reading its state."""

    advice = "Try again: that takes seconds after a broker started."


class CoordinatorNotAvailable(BrokerError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """There is no coordinator right now."""

    advice = "Try again; if it stays, look whether the internal topics have leaders."


class NotCoordinator(BrokerError, code=ErrorCode.NOT_COORDINATOR):
    """The coordinator has moved."""

    advice = "Try again: the client looks for the new coordinator."


class OffsetOutOfRange(BrokerError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The position lies outside of the log: deleted by retention, or beyond its end."""

    advice = "Seek, or set auto_offset_reset to earliest or latest."


class OffsetNotAvailable(BrokerError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """The new leader does not know yet how far the log is committed."""

    advice = "Try again: the leader knows it soon."


class UnstableOffsetCommit(BrokerError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """Offsets of an open transaction are not settled yet."""

    advice = "Try again once the transaction has ended."


class OffsetMetadataTooLarge(BrokerError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """The metadata beside a committed offset is too large."""

    advice = "Commit less text beside the offset, or raise offset.metadata.max.bytes."


class IllegalGeneration(BrokerError, code=ErrorCode.ILLEGAL_GENERATION):
    """The group has rebalanced since."""

    advice = "Go on reading: the member joins again by itself."


class UnknownMember(BrokerError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The group does not know this member any more."""

    advice = "Go on reading: the member joins again by itself."


class RebalanceInProgress(BrokerError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The group is rebalancing."""

    advice = "Go on reading: the member takes part by itself."


class MemberIdRequired(BrokerError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """The member must join again with the id it was given (KIP-394)."""

    advice = "Go on reading: the member joins again by itself."


class FencedInstanceId(BrokerError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another member has taken over this group_instance_id."""

    fatal = True
    advice = "Give every member a group_instance_id of its own."


class GroupMaxSizeReached(BrokerError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group is full."""

    fatal = True
    advice = "Use fewer members, or raise group.max.size."


class InconsistentGroupProtocol(BrokerError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The member shares no assignor with the rest of the group."""

    advice = "Use an assignor that every member of the group has."


class InvalidGroupId(BrokerError, code=ErrorCode.INVALID_GROUP_ID):
    """The group id is invalid."""

    fatal = True
    advice = "Choose a group id that is not empty."


class InvalidSessionTimeout(BrokerError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """session_timeout_ms is outside of the broker's range."""

    fatal = True
    advice = "Look at group.min.session.timeout.ms and group.max.session.timeout.ms of the broker."


class GroupIdNotFound(BrokerError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """There is no such group."""

    advice = "Check the name; a group without members and offsets is forgotten."


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
    """No reassignment is going on."""

    advice = "Nothing is to be done: it has ended, or never began."


class ElectionNotNeeded(BrokerError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The leader is already the right one."""

    advice = "Nothing is to be done."


class ResourceNotFound(BrokerError, code=ErrorCode.RESOURCE_NOT_FOUND):
    """There is no such resource."""

    advice = "Check its name."
