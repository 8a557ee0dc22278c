"""Messages that read and change client quotas (KIP-546)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
)


@struct
class ClientQuotaFilter:
    """What one part of an entity must be: 0 this name, 1 the default, 2 anything."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Find quotas by the entities they are for."""

    components: list[ClientQuotaFilter] = array(ClientQuotaFilter)
    strict: bool = boolean()


@struct
class ClientQuotaEntity:
    """One part of an entity: a user, client id or address; no name means the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class ClientQuotaValue:
    """One quota."""

    key: str = string()
    value: float = float64()


@struct
class DescribeClientQuotasEntry:
    """The quotas of one entity."""

    entity: list[ClientQuotaEntity] = array(ClientQuotaEntity)
    values: list[ClientQuotaValue] = array(ClientQuotaValue)


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    """The quotas of each entity found."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribeClientQuotasEntry] | None = array(
        DescribeClientQuotasEntry, nullable="0+"
    )


@struct
class ClientQuotaOperation:
    """One quota to set or remove."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class AlterClientQuotasEntry:
    """The changes of one entity."""

    entity: list[ClientQuotaEntity] = array(ClientQuotaEntity)
    ops: list[ClientQuotaOperation] = array(ClientQuotaOperation)


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Set and remove quotas."""

    entries: list[AlterClientQuotasEntry] = array(AlterClientQuotasEntry)
    validate_only: bool = boolean()


@struct
class AlterClientQuotasEntryResponse:
    """What became of one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[ClientQuotaEntity] = array(ClientQuotaEntity)


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """What became of each entity."""

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasEntryResponse] = array(AlterClientQuotasEntryResponse)
