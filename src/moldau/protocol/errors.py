"""The error table of the protocol: every code, what it means, whether trying again can help.

A code is chosen for what the client will do when it reads it. `retriable` is the Java client's
notion: the same request may succeed later without anybody's doing. The texts are what a client is
shown when the broker has nothing more precise to say; those that people look for are Kafka's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from moldau.base.errors import MoldauError
from moldau.base.texts import MESSAGE_LENGTH_MAX, shorten

_RETRIABLE = True


class ErrorCode(IntEnum):
    """The codes, under the names Kafka gives them."""

    text: str
    retriable: bool

    def __new__(cls, code: int, text: str = "", retriable: bool = False) -> Self:
        """Make a member from its row of the table."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.text = text
        member.retriable = retriable
        return member

    @classmethod
    def of(cls, code: int) -> ErrorCode:
        """The code a peer sent; one from a later protocol reads as UNKNOWN_SERVER_ERROR."""
        try:
            return cls(code)
        except ValueError:
            return cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, "The server met an error it has no code for."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = (
        1,
        "The requested offset is not within the range of offsets maintained by the server.",
    )
    CORRUPT_MESSAGE = 2, "A record has a wrong checksum, size or key for its topic.", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not host this topic-partition.", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = (
        5,
        (
            "There is no leader for this topic-partition as we are in the middle of a leadership"
            " election."
        ),
        _RETRIABLE,
    )
    NOT_LEADER_OR_FOLLOWER = 6, "This broker is not the replica the request is for.", _RETRIABLE
    REQUEST_TIMED_OUT = 7, "The request timed out.", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, "The replica is not available.", _RETRIABLE
    MESSAGE_TOO_LARGE = (
        10,
        "The request included a message larger than the max message size the server will accept.",
    )
    STALE_CONTROLLER_EPOCH = 11, "The controller moved to another broker."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of the committed offset is too large."
    NETWORK_EXCEPTION = 13, "The connection ended before an answer came.", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        "The coordinator is loading and hence can't process requests.",
        _RETRIABLE,
    )
    COORDINATOR_NOT_AVAILABLE = 15, "The coordinator is not available.", _RETRIABLE
    NOT_COORDINATOR = 16, "This is not the correct coordinator.", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = (
        17,
        "The request attempted to perform an operation on an invalid topic.",
    )
    RECORD_LIST_TOO_LARGE = (
        18,
        "The request included message batch larger than the configured segment size on the server.",
    )
    NOT_ENOUGH_REPLICAS = (
        19,
        "Messages are rejected since there are fewer in-sync replicas than required.",
        _RETRIABLE,
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "Messages are written to the log, but to fewer in-sync replicas than required.",
        _RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "Produce request specified an invalid value for required acks."
    ILLEGAL_GENERATION = 22, "Specified group generation id is not valid."
    INCONSISTENT_GROUP_PROTOCOL = 23, "The member shares no protocol with the group."
    INVALID_GROUP_ID = 24, "The configured groupId is invalid."
    UNKNOWN_MEMBER_ID = 25, "The coordinator is not aware of this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside of the broker's range."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing, so a rejoin is needed."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The committed offset with its metadata is too large."
    TOPIC_AUTHORIZATION_FAILED = 29, "No permission on the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "No permission on the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "No permission on the cluster."
    INVALID_TIMESTAMP = 32, "The timestamp of the message is out of acceptable range."
    UNSUPPORTED_SASL_MECHANISM = 33, "The broker does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, "The request does not fit the state of the authentication."
    UNSUPPORTED_VERSION = 35, "The version of API is not supported."
    TOPIC_ALREADY_EXISTS = 36, "Topic with this name already exists."
    INVALID_PARTITIONS = 37, "Number of partitions is below 1."
    INVALID_REPLICATION_FACTOR = (
        38,
        "Replication factor is below 1 or larger than the number of available brokers.",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, "Replica assignment is invalid."
    INVALID_CONFIG = 40, "Configuration is invalid."
    NOT_CONTROLLER = 41, "This broker is not the controller.", _RETRIABLE
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The record format of the topic cannot do this."
    POLICY_VIOLATION = 44, "Request parameters do not satisfy the configured policy."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "The broker received an out of order sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, "The broker has this sequence number already."
    INVALID_PRODUCER_EPOCH = 47, "Producer attempted to produce with an old epoch."
    INVALID_TXN_STATE = 48, "The producer attempted a transactional operation in an invalid state."
    INVALID_PRODUCER_ID_MAPPING = 49, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The transaction timeout is above the broker's maximum."
    CONCURRENT_TRANSACTIONS = 51, "Another change of the same transaction is going on.", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = 52, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "No permission on the transactional id."
    SECURITY_DISABLED = 54, "Security features are disabled."
    OPERATION_NOT_ATTEMPTED = 55, "Not attempted, because another part of the request failed."
    KAFKA_STORAGE_ERROR = 56, "Disk error when trying to access log file on the disk.", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, "The broker holds no state of this producer."
    REASSIGNMENT_IN_PROGRESS = 60, "The partitions are being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "Neither owner nor renewer of the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Tokens cannot be managed over this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "No permission on the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The type of principal is not supported."
    NON_EMPTY_GROUP = 68, "The group is not empty."
    GROUP_ID_NOT_FOUND = 69, "The group id does not exist."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The fetch session is gone.", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session expects another epoch.", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "The leader has no listener of this name.", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, "The leader epoch in the request is old.", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "The leader epoch in the request is newer than known.", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "The client cannot read this compression."
    STALE_BROKER_EPOCH = 77, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, "The new leader's high watermark is not caught up yet.", _RETRIABLE
    MEMBER_ID_REQUIRED = 79, "The member must join again with the id it was given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not available.", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "The consumer group has reached its max size."
    FENCED_INSTANCE_ID = 82, "Another member has taken over this instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica may become leader.", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "The leader is already the right one.", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "No reassignment is going on."
    GROUP_SUBSCRIBED_TO_TOPIC = (
        86,
        (
            "Deleting offsets of a topic is forbidden while the consumer group is actively"
            " subscribed to it."
        ),
    )
    INVALID_RECORD = (
        87,
        "This record has failed the validation on broker and hence will be rejected.",
    )
    UNSTABLE_OFFSET_COMMIT = 88, "Offsets of open transactions are not settled yet.", _RETRIABLE
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is used up for now.", _RETRIABLE
    PRODUCER_FENCED = (
        90,
        "There is a newer producer with the same transactionalId which fences the current one.",
    )
    RESOURCE_NOT_FOUND = 91, "There is no such resource."
    DUPLICATE_RESOURCE = 92, "The resource is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, "The sides disagree on who may vote."
    INVALID_UPDATE_VERSION = 95, "The version to update from is not the present one."
    FEATURE_UPDATE_FAILED = 96, "The feature level could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The position lies outside of the snapshot."
    UNKNOWN_TOPIC_ID = 100, "This server does not host this topic ID.", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "Another broker has registered this id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker is registered under this id."
    INCONSISTENT_TOPIC_ID = 103, "The log has another topic id than the request.", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "The request is for another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        "The fetch session changed between topic names and topic ids.",
        _RETRIABLE,
    )
    INELIGIBLE_REPLICA = 107, "The replica may not join the in-sync replicas now."
    NEW_LEADER_ELECTED = 108, "The change made another broker the leader."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is no longer on the local disk."
    FENCED_MEMBER_EPOCH = 110, "The member's epoch is old, it must join again."
    UNRELEASED_INSTANCE_ID = 111, "The instance id is still in use."
    UNSUPPORTED_ASSIGNOR = 112, "The group does not support this assignor."
    STALE_MEMBER_EPOCH = 113, "The member must commit again with its newer epoch."
    MISMATCHED_ENDPOINT_TYPE = 114, "The request reached the wrong kind of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "This kind of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is not the present one."
    TELEMETRY_TOO_LARGE = 118, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, "The controller refuses the registration."
    TRANSACTION_ABORTABLE = 120, "The transaction must be aborted; the producer may go on."
    INVALID_RECORD_STATE = 121, "The record is not in a state that allows this acknowledgement."
    SHARE_SESSION_NOT_FOUND = 122, "The share session is gone.", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session expects another epoch.", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "The epoch of the share state is old."
    INVALID_VOTER_KEY = 125, "The voter key is not that of the receiver."
    DUPLICATE_VOTER = 126, "The voter is already one."
    VOTER_NOT_FOUND = 127, "There is no such voter."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression is invalid."
    REBOOTSTRAP_REQUIRED = 129, "The client must begin again from its bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, "The topology is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The epoch of the topology is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, "The topology of the group is another one."
    SHARE_SESSION_LIMIT_REACHED = 133, "The broker holds no more share sessions.", _RETRIABLE
    GROUP_DELETION_FAILED = 134, "The group could not be deleted."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "The description of the topology could not be stored.",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, "No controller is registered under this id."


class ApiError(MoldauError):
    """An outcome the client must be told about: a code and a line for its user.

    The line is cut where it is too long: it may repeat what a client sent, of any length, and it
    travels in a string field.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = shorten(message or code.text, MESSAGE_LENGTH_MAX)
        super().__init__(self.message)

    @property
    def retriable(self) -> bool:
        """Tell whether the same request may succeed later."""
        return self.code.retriable

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def __reduce__(self) -> tuple[type[ApiError], tuple[ErrorCode, str]]:
        """Let it cross from a worker process: it is raised there as an outcome."""
        return type(self), (self.code, self.message)
