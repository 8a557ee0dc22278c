"""DescribeClientQuotas 0-1 and AlterClientQuotas 0-1 of a broker that enforces no quotas.

There are none to describe. Taking one away changes nothing and is accepted, as by Kafka; setting
one is refused, because it would not be kept to. What Kafka finds wrong is found wrong first.
"""

from __future__ import annotations

from typing import Final

from moldau.base.texts import shorten
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasEntryResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaEntity,
    ClientQuotaFilter,
    ClientQuotaOperation,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold
from moldau.server.network.slices import Sliced

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})
EXACT, DEFAULT, SPECIFIED = range(3)
_WITHOUT_NAME: Final = {DEFAULT: "MATCH_TYPE_DEFAULT", SPECIFIED: "MATCH_TYPE_SPECIFIED"}

BYTE_RATES: Final = frozenset({"producer_byte_rate", "consumer_byte_rate"})
CLIENT_KEYS: Final = BYTE_RATES | {"request_percentage", "controller_mutation_rate"}
ADDRESS_KEYS: Final = frozenset({"connection_creation_rate"})
WHOLE_NUMBERS: Final = BYTE_RATES | ADDRESS_KEYS


def describe_quotas(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> Sliced[DescribeClientQuotasResponse]:
    """Say that there are none, unless the question is wrong."""
    del context
    types: set[str] = set()
    try:
        for one in request.components:
            _check_filter(one, types)
            types.add(one.entity_type)
            yield
        if IP in types and len(types) > 1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component.",
            )
    except ApiError as error:
        return DescribeClientQuotasResponse(0, error.code, error.message, None)
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _check_filter(one: ClientQuotaFilter, seen: set[str]) -> None:
    kind, match = one.entity_type, one.match_type
    problem, code = None, ErrorCode.INVALID_REQUEST
    if not kind:
        problem = "Invalid empty entity type."
    elif kind in seen:
        problem = f"Entity type {shorten(kind)} cannot appear more than once in the filter."
    elif match not in (EXACT, DEFAULT, SPECIFIED):
        problem = f"Unknown match type {match}"
    elif match == EXACT and one.match is None:
        problem = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif match != EXACT and one.match is not None:
        problem = f"Request specified {_WITHOUT_NAME[match]}, but also specified a match string."
    elif kind not in ENTITY_TYPES:
        problem, code = f"Unsupported entity type {shorten(kind)}", ErrorCode.UNSUPPORTED_VERSION
    if problem is not None:
        raise ApiError(code, problem)


def alter_quotas(
    request: AlterClientQuotasRequest, context: RequestContext
) -> Sliced[AlterClientQuotasResponse]:
    """Accept what changes nothing."""
    del context
    response = AlterClientQuotasResponse()
    named = []
    for entry in request.entries:
        entity = yield from _entity_of(entry)
        named.append((entity, entry))
    entries = yield from fold(named, _key_of)
    for key, (entity, entry) in entries.elements.items():
        code, message = ErrorCode.NONE, None
        try:
            if key in entries.repeated:
                raise ApiError(ErrorCode.INVALID_REQUEST, "An entity is named more than once.")
            _check_entity(entity)
            yield from _check_operations(entry, IP in entity)
        except ApiError as error:
            code, message = error.code, error.message
        parts = []
        for part in entity.items():
            parts.append(ClientQuotaEntity(*part))
            yield
        response.entries.append(AlterClientQuotasEntryResponse(code, message, parts))
        yield
    return response


def _key_of(named: tuple[dict[str, str | None], AlterClientQuotasEntry]) -> object:
    """Return what is equal for equal entities; one of too many parts is refused by itself."""
    entity, entry = named
    return tuple(entity.items()) if len(entity) <= len(ENTITY_TYPES) else id(entry)


def _entity_of(entry: AlterClientQuotasEntry) -> Sliced[dict[str, str | None]]:
    """Return the parts of an entity; of one part named twice the last counts, as in Kafka."""
    entity = {}
    for one in entry.entity:
        entity[one.entity_type] = one.entity_name
        yield
    return entity


def _check_entity(entity: dict[str, str | None]) -> None:
    problem = None
    unknown = next((kind for kind in entity if kind not in ENTITY_TYPES), None)
    if not entity:
        problem = "Invalid empty client quota entity"
    elif unknown is not None:
        problem = f"Unhandled client quota entity type: {shorten(unknown)}"
    elif "" in entity.values():
        kind = next(kind for kind, name in entity.items() if name == "")
        problem = f"Empty {kind} not supported"
    elif IP in entity and len(entity) > 1:
        problem = "Invalid quota entity combination: an IP stands alone"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _check_operations(entry: AlterClientQuotasEntry, of_address: bool) -> Sliced[None]:
    keys = ADDRESS_KEYS if of_address else CLIENT_KEYS
    is_set = False
    for one in entry.ops:
        if not one.remove:
            _check_value(one, keys)
            is_set = True
        yield
    if is_set:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            "This broker does not enforce quotas, so that none can be set.",
        )


def _check_value(one: ClientQuotaOperation, keys: frozenset[str]) -> None:
    problem = None
    if one.key not in keys:
        problem = f"Invalid configuration key {shorten(one.key)}"
    elif not one.value > 0:
        problem = f"Quota {one.key} must be greater than 0"
    elif one.key in WHOLE_NUMBERS and not one.value.is_integer():
        problem = f"{one.key} cannot be a fractional value."
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
