"""Messages that read and change the configs of topics, brokers, groups and client metrics.

Resource types are Kafka's codes: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.
"""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
)


@struct
class DescribeConfigsResource:
    """One resource; null keys mean all configs."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="0+")


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest:
    """Read configs (KIP-133).

    Version 1 can include where a value came from (KIP-226), 3 the documentation (KIP-569).
    """

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


@struct
class DescribeConfigsSynonym:
    """One place a value may come from, in the order of precedence."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


@struct
class DescribeConfigsResourceResult:
    """One config."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean("0")  # later replaced by `config_source`
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+")
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="3+")


@struct
class DescribeConfigsResult:
    """The configs of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse:
    """Configs of each resource; values of sensitive ones are null."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


@struct
class AlterableConfig:
    """One config; null means its default."""

    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    """One resource and all its configs."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest:
    """Replace all configs of resources (KIP-133); what is not named is reset to its default."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    """What became of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse:
    """What became of each resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


@struct
class IncrementalAlterableConfig:
    """One change of one config."""

    name: str = string()
    config_operation: int = int8()  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None = string(nullable="0+")


@struct
class IncrementalAlterConfigsResource:
    """One resource and its changes."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterableConfig] = array(IncrementalAlterableConfig)


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest:
    """Change single configs and leave the others alone (KIP-339)."""

    resources: list[IncrementalAlterConfigsResource] = array(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


@message(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse:
    """What became of each resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest:
    """List resources that have configs; none named means all types (1+, KIP-1142).

    Version 0 lists client metrics only (KIP-714).
    """

    resource_types: list[int] = array(int8, "1+")


@struct
class ListedConfigResource:
    """One resource."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


@message(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse:
    """The resources found."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ListedConfigResource] = array(ListedConfigResource)
