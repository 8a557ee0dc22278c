"""Where Moldau knowingly answers otherwise than Apache Kafka 4.3.1, and why."""

from __future__ import annotations

from .compare import Accepted

_TAKEN_AT_ITS_WORD = (
    "a batch with a right header and checksum is stored as it came; Kafka reads every record, and "
    "refuses or corrects what the header says of them"
)
_KAFKA_FAILS = "Kafka answers UNKNOWN_SERVER_ERROR to what it did not expect"
_NO_CLIENT = "no client asks this; refusing costs nobody, or Kafka's answer means nothing"
_OF_THE_HARNESS = "the two are configured differently: Kafka's controller has a listener and voters"
_TOLD_ONCE = "Kafka tells what is named twice twice, Moldau once, so that answers stay small"
_NOT_AT_RUN_TIME = "Kafka can change it while it runs, Moldau cannot and says so"

_ANSWERED_ONCE = "what one request names twice is answered once"

ACCEPTED: tuple[Accepted, ...] = (
    Accepted(
        "produce-ordinary",
        "one partition twice|end",
        "",
        "Kafka keeps the last batch of a partition named twice and drops the others silently; "
        "Moldau appends and answers all",
    ),
    Accepted(
        "produce-malformed",
        "trailing bytes|length one less",
        "",
        "Kafka drops fewer than 12 bytes behind a batch silently; Moldau refuses them",
    ),
    Accepted(
        "produce-malformed",
        "count 3 and|said to be|max timestamp|base timestamp",
        "",
        _TAKEN_AT_ITS_WORD,
    ),
    Accepted(
        "produce-malformed",
        "codec [57]",
        "",
        f"{_KAFKA_FAILS}; Moldau says UNSUPPORTED_COMPRESSION_TYPE",
    ),
    Accepted(
        "produce-malformed",
        "append time bit",
        "",
        "Kafka clears the bit where the topic keeps the producer's times; Moldau refuses it as "
        "Kafka does in other topics",
    ),
    Accepted(
        "produce-wrong_on_compacted",
        "said to be gzip",
        r".*error_code",
        f"{_KAFKA_FAILS}; Moldau says INVALID_RECORD",
    ),
    Accepted("produce-wrong_on_compacted", "max timestamp", r".*records", _TAKEN_AT_ITS_WORD),
    Accepted("produce-codecs", "damaged gzip", "", _TAKEN_AT_ITS_WORD),
    Accepted(
        "produce-sequences",
        "negative epoch|end",
        "",
        "Kafka takes a producer id with epoch -1; Moldau refuses the contradiction",
    ),
    Accepted("fetch-offsets", "isolation 2", "", f"{_KAFKA_FAILS}; to Moldau it is uncommitted"),
    Accepted("fetch-limits", r"(partition )?max -1", "", f"{_KAFKA_FAILS}; to Moldau it is 0"),
    Accepted("fetch-epochs", "leader epoch -2", "", _NO_CLIENT),
    Accepted(
        "fetch-replicas",
        "replica [17]",
        r".*current_leader",
        "followers are not served yet, so none is told of its leader",
    ),
    Accepted(
        "fetch-deleted_in_session",
        "after deletion",
        r".*error_code",
        "a topic id that has gone is UNKNOWN_TOPIC_ID to Moldau; Kafka still knows its name from "
        "the session and says UNKNOWN_TOPIC_OR_PARTITION",
    ),
    Accepted(
        "offsets-after_deletion",
        "from 9 at -3",
        "",
        "Kafka finds the largest time in a record that was deleted; Moldau among those left",
    ),
    Accepted(
        "offsets-in_segments",
        "after deletion at 1",
        "",
        "Kafka looks into a segment that is deleted but not yet gone, and finds nothing",
    ),
    Accepted("offsets-leader_epochs", ".*epoch -2", "", _NO_CLIENT),
    Accepted("coordinators-find", r".*\('a', 'a'\).*", "", _TOLD_ONCE),
    Accepted("groups-administered", r"\['nobody', 'nobody'\].*", "", _TOLD_ONCE),
    Accepted("transactions-described", r"\['id', 'id'\].*", "", _TOLD_ONCE),
    Accepted(
        "topics-refused",
        "validate",
        r".*topic_id",
        "Kafka tells the id of a topic that was not created, and never will be under that id",
    ),
    Accepted(
        "(topics-refused|configs-refused_of_topic)",
        "(validate: |set |replace )?remote.storage.enable=true",
        r".*error_message",
        "Moldau has no tiered storage that could be enabled",
    ),
    Accepted("topics-grown", "to 100000", r".*error_code", f"{_KAFKA_FAILS}; Moldau refuses it"),
    Accepted("replicas-reassignments", "one (partition|topic) twice", "responses", _ANSWERED_ONCE),
    Accepted("replicas-elections", ". repeats", "replica_election_results", _ANSWERED_ONCE),
    Accepted("features-updated", "one feature twice", "results", _ANSWERED_ONCE),
    Accepted("replicas-quorum", "(one )?twice", "", f"{_ANSWERED_ONCE}, and so described"),
    Accepted(
        "quotas-altered",
        "set",
        r".*error_code",
        "Moldau enforces no quotas, and so lets none be set",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        "(listeners|process.roles|controller.(quorum.voters|listener.names))",
        _OF_THE_HARNESS,
    ),
    Accepted(
        "configs-described_broker",
        "own",
        "(config.providers|listeners|listener.security.protocol.map).*read_only",
        _NOT_AT_RUN_TIME,
    ),
    Accepted(
        "configs-described_broker",
        "unknown type|type 77",
        r".*error_message",
        "Moldau names the type; Kafka says only that the request may be malformed",
    ),
    Accepted(
        "configs-described_broker",
        "own|some",
        "node.id.*synonyms",
        "Moldau has a default for node.id, so that a broker starts without a settings file",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        "inter.broker.listener.name",
        "`--listen` names the only listener, and so sets this aside explicitly",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        r"(moldau\.|internal\.topics\.writable|log\.scrub\.)",
        "configs of Moldau's own",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        r"replica\.socket\.receive\.buffer\.bytes.*value",
        "the kernel sizes the receive buffer of a follower's socket by default (ADR 0014)",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        r"socket\.send\.buffer\.bytes.*value",
        "the kernel sizes the send buffers of clients' sockets by default (ADR 0019)",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        r"queued\.max\.request\.bytes.*value",
        "what all requests hold together has a limit by default; in Kafka it has none",
    ),
    Accepted(
        "configs-described_broker",
        "own",
        "queued.max.request.bytes",
        "Moldau limits the memory of requests and answers by default",
    ),
    Accepted(
        "configs-(altered|refused_of)_broker",
        "unknown|a topic's name",
        r".*error_code",
        "Kafka stores any name, for plug-ins; Moldau has none, and a name it does not know is a "
        "mistake",
    ),
    Accepted(
        "configs-(altered|refused_of)_broker",
        "of one broker for all",
        r".*error_message",
        _NOT_AT_RUN_TIME,
    ),
    Accepted(
        "configs-(altered|refused_of)_broker",
        "far more threads",
        r".*(error_code|error_message)",
        "Kafka at most doubles a pool of threads; Moldau has no such pool, the config no effect",
    ),
    Accepted(
        "groups-refused_joins",
        "(describe|list) after refusals",
        "",
        "Kafka makes the group before it refuses the first member for its protocols; with Moldau "
        "what is refused leaves nothing behind",
    ),
    Accepted(
        "groups-odd_joins",
        "(describe |list )?(many topics|cut topic|one protocol twice)",
        "",
        f"{_KAFKA_FAILS}, and its group waits for the rebalance to time out; Moldau passes on what "
        "it need not read, and takes the first of two protocols with one name",
    ),
    Accepted("transactions-written", "write wrongly, nameless", "", _NO_CLIENT),
    Accepted(
        "group_offsets-in_transactions",
        "other id",
        r".*error_code",
        "Kafka verifies the first commit of a transaction only; Moldau verifies each, and so finds "
        "that another transactional id is named",
    ),
    Accepted(
        "transactions-markers",
        "stale epoch",
        r".*error_code",
        f"{_KAFKA_FAILS}; Moldau says INVALID_PRODUCER_EPOCH",
    ),
    Accepted(
        "transactions-listed",
        r".*:alpha:",
        "",
        "Moldau takes what the patterns of Java and RE2 have in common; a set in a set means "
        "something else in each",
    ),
    Accepted(
        "discovery-frames",
        "negative count",
        "",
        "Moldau takes only -1 for null and only UTF-8 for text; Kafka takes what it can",
    ),
    Accepted(
        "discovery-metadata_by_id",
        "by zero id",
        "",
        f"{_KAFKA_FAILS}; Moldau says UNKNOWN_TOPIC_ID",
    ),
    Accepted(
        "discovery-topic_partitions",
        "empty",
        "",
        f"{_KAFKA_FAILS}; Moldau says INVALID_TOPIC_EXCEPTION",
    ),
)
"""Kafka 4.3.1 against Moldau, in the order of the scenarios."""

ACCEPTED_OF_OLD: tuple[Accepted, ...] = (
    Accepted(
        "topics-refused",
        ".*",
        r".*error_message",
        "The texts are those of Kafka 4.3.1, which are not all as old as these versions",
    ),
    Accepted(
        "offsets-(by_time|after_deletion|append_time|in_segments)",
        ".*at [1-9]",
        r".*old_style_offsets",
        "ListOffsets 0 by time: Kafka goes by when files were modified, Moldau by the records",
    ),
    Accepted(
        "offsets-refused",
        "one partition twice",
        "",
        "Kafka answers both questions in version 0 and refuses them in all others; Moldau refuses",
    ),
    Accepted("offsets-refused", "-1 offsets", r".*error_code", f"{_KAFKA_FAILS}; Moldau: none"),
    Accepted("offsets-leader_epochs", ".*epoch -2", "", _NO_CLIENT),
    Accepted(
        "old_formats-produced",
        ".*: (cut|cut in the first|empty)(,| v)",
        "",
        "Kafka acknowledges a set of messages and drops what is cut; Moldau refuses all of it",
    ),
    Accepted(
        "old_formats-produced",
        ".*: two wrappers",
        "",
        "Kafka takes many messages but only one compressed set; Moldau makes one batch of both",
    ),
    Accepted(
        "old_formats-produced",
        "too large",
        "",
        "Kafka measures each message and the batch they become; Moldau also what was sent",
    ),
    Accepted(
        "discovery-frames",
        "negative count",
        "",
        "as with Kafka 4",
    ),
    Accepted(
        "transactions-markers", "stale epoch", r".*error_code", f"{_KAFKA_FAILS}, as with Kafka 4"
    ),
    Accepted(
        "topics-refused",
        ".*message.format.version",
        "",
        "a config of Kafka 3 that had no effect any more and is gone in 4",
    ),
)
"""Kafka 3.9 against Moldau, in versions that Kafka 4 no longer serves."""
