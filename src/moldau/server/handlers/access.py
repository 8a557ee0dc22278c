"""Authentication and authorisation of a broker that has neither.

SaslHandshake 0-1, SaslAuthenticate 0-2, DescribeAcls, CreateAcls, DeleteAcls 0-3, both APIs of
SCRAM credentials, and the four of delegation tokens. Each gives Kafka's answer where no authorizer
is configured and the connection is not authenticated, so that tools say what is the matter instead
of that an API is missing.
"""

from __future__ import annotations

from typing import Final

from moldau.base.errors import ProtocolError
from moldau.base.texts import shorten
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from moldau.protocol.messages.security import (
    AclCreation,
    AclCreationResult,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold
from moldau.server.network.slices import Sliced

NO_AUTHORIZER: Final = "No Authorizer is configured."
UNKNOWN: Final = 0
"""The code that means nothing in every enumeration of access rules; Kafka hangs up on it."""
NO_TIME: Final = -1
REQUESTER_FROM: Final = 3


def sasl_handshake(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """Refuse to authenticate on a listener that needs none."""
    del request, context
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(
    request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    """Refuse to authenticate on a listener that needs none."""
    del request, context
    return SaslAuthenticateResponse(
        ErrorCode.ILLEGAL_SASL_STATE,
        "SaslAuthenticate request received on a listener without SASL",
    )


def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Say that nothing is guarded."""
    del context
    _check(request.resource_type_filter, request.pattern_type_filter, request)
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="No Authorizer is configured on the broker",
    )


def create_acls(request: CreateAclsRequest, context: RequestContext) -> Sliced[CreateAclsResponse]:
    """Refuse each rule, in the order asked."""
    del context
    refused = AclCreationResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    response = CreateAclsResponse()
    for rule in request.creations:
        _check(rule.resource_type, rule.resource_pattern_type, rule)
        response.results.append(refused)
        yield
    return response


def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> Sliced[DeleteAclsResponse]:
    """Refuse each filter, in the order asked."""
    del context
    refused = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    response = DeleteAclsResponse()
    for one in request.filters:
        _check(one.resource_type_filter, one.pattern_type_filter, one)
        response.filter_results.append(refused)
        yield
    return response


def _check(
    resource_type: int,
    pattern_type: int,
    rule: DescribeAclsRequest | AclCreation | DeleteAclsFilter,
) -> None:
    codes = (resource_type, pattern_type, rule.operation, rule.permission_type)
    if UNKNOWN in codes:
        raise ProtocolError("an access rule has an element of unknown type")


def describe_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> Sliced[DescribeUserScramCredentialsResponse]:
    """Say of every user asked for that it has none; all users have none."""
    del context
    response = DescribeUserScramCredentialsResponse(error_message="")
    users = yield from fold(request.users or (), lambda user: user.name)
    for name in users.elements:
        code = ErrorCode.RESOURCE_NOT_FOUND
        text = "Attempt to describe a user credential that does not exist: "
        if name in users.repeated:
            code = ErrorCode.DUPLICATE_RESOURCE
            text = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        response.results.append(
            DescribeUserScramCredentialsResult(name, code, text + shorten(name))
        )
        yield
    return response


def alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> Sliced[AlterUserScramCredentialsResponse]:
    """Refuse to store what nobody could log in with; there is nothing to delete."""
    del context
    response = AlterUserScramCredentialsResponse()
    absent = "Attempt to delete a user credential that does not exist"
    refusals: dict[str, tuple[ErrorCode, str]] = {}
    for added in request.upsertions:
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        refusals[added.name] = (code, "This broker does not authenticate with SCRAM.")
        yield
    for deleted in request.deletions:
        refusals[deleted.name] = (ErrorCode.RESOURCE_NOT_FOUND, absent)
        yield
    for user, (code, text) in refusals.items():
        response.results.append(AlterUserScramCredentialsResult(user, code, text))
        yield
    return response


NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
"""Tokens are for authenticated connections, of which there are none."""


def create_token(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    """Refuse to issue a token."""
    del request
    asker = context.session.principal
    requester = asker if context.version >= REQUESTER_FROM else ("", "")
    times = (NO_TIME, NO_TIME, NO_TIME)
    return CreateDelegationTokenResponse(NOT_ALLOWED, *asker, *requester, *times)


def renew_token(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    """Refuse to renew a token."""
    del request, context
    return RenewDelegationTokenResponse(NOT_ALLOWED, NO_TIME)


def expire_token(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    """Refuse to end a token."""
    del request, context
    return ExpireDelegationTokenResponse(NOT_ALLOWED, NO_TIME)


def describe_tokens(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    """Refuse to list tokens."""
    del request, context
    return DescribeDelegationTokenResponse(NOT_ALLOWED)
