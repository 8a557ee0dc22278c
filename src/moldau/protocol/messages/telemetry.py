"""Messages by which clients push their metrics to the broker (KIP-714)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    bytes_,
    int8,
    int16,
    int32,
    message,
    string,
    uuid,
)


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest:
    """Ask which metrics to push; the zero id asks for an id as well."""

    client_instance_id: bytes = uuid()


@message(key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsResponse:
    """Which metrics to push, how often, how large, and in which compression."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)  # name prefixes; an empty string means all


@message(key=72, versions="0", flexible="0+")
class PushTelemetryRequest:
    """Metrics in OpenTelemetry's binary form."""

    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()  # the last push of this client
    compression_type: int = int8()
    metrics: bytes = bytes_()


@message(key=72, versions="0", flexible="0+")
class PushTelemetryResponse:
    """Whether they were taken."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
