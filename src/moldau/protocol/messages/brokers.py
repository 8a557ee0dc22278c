"""Messages by which brokers and controllers join a KRaft cluster, stay and leave (KIP-631)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    bytes_,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
    uuid,
)


@struct
class RegistrationListener:
    """One listener of the node."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class RegistrationFeature:
    """The levels of one feature the node can run at."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    """Register a broker after it started.

    Version 1 marks a migrating broker (KIP-866), 2 adds log directories (KIP-858), 3 the epoch
    before a clean stop (KIP-966), 4 allows feature minimums of 0.
    """

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[RegistrationListener] = array(RegistrationListener)
    features: list[RegistrationFeature] = array(RegistrationFeature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "2+")
    previous_broker_epoch: int = int64("3+", default=-1)  # -1 after an unclean stop


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    """The broker epoch, or why the broker was refused."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(default=-1)


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    """Say that a broker is alive and how far it has read the metadata.

    Version 1 reports failed log directories (KIP-858), 2 cordoned ones (KIP-1066).
    """

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, "1+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "2+", nullable="2+", tag=1, default=None)


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    """Whether the broker may serve, and whether it may stop."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(default=True)
    should_shut_down: bool = boolean()


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """Take a stopped broker out of the cluster for good."""

    broker_id: int = int32()


@message(key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    """Tell the active controller where this one listens and what it supports (KIP-919)."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[RegistrationListener] = array(RegistrationListener)
    features: list[RegistrationFeature] = array(RegistrationFeature)


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=94, versions="0", flexible="0+")
class UnregisterControllerRequest:
    """Take a stopped controller out of the cluster for good."""

    controller_id: int = int32()


@message(key=94, versions="0", flexible="0+")
class UnregisterControllerResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class FeatureUpdateKey:
    """One feature and its new level; below 1 removes it."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Finalise features at other levels (KIP-584).

    Version 1 names the kind of change and can merely validate (KIP-778).
    """

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


@struct
class UpdatableFeatureResult:
    """What became of one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    """What became of it; before version 2 feature by feature."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1")


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest:
    """From a broker to the controller: a client's request, and who sent it (KIP-590)."""

    request_data: bytes = bytes_()
    request_principal: bytes | None = bytes_(nullable="0+")
    client_host_address: bytes = bytes_()


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    """The client's answer, to be passed on as it is."""

    response_data: bytes | None = bytes_(nullable="0+", default=None)
    error_code: int = int16()  # of the forwarding, not of the request
