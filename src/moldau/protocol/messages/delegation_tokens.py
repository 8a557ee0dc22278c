"""Messages that issue, renew, expire and list delegation tokens (KIP-48).

A token lets a worker act as its owner without the owner's password; its HMAC is the secret.
"""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    bytes_,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
)


@struct
class TokenPrincipal:
    """One owner or renewer."""

    principal_type: str = string()
    principal_name: str = string()


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenRequest:
    """Issue a token; version 3 lets a superuser issue it for another owner (KIP-373)."""

    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[TokenPrincipal] = array(TokenPrincipal)
    max_lifetime_ms: int = int64()  # -1: the broker's default


@message(key=38, versions="0-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The token, with its secret."""

    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    throttle_time_ms: int = int32()


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenRequest:
    """Move a token's expiry on."""

    hmac: bytes = bytes_()
    renew_period_ms: int = int64()  # -1: the broker's default


@message(key=39, versions="0-2", flexible="2+")
class RenewDelegationTokenResponse:
    """When the token expires now."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenRequest:
    """Set a token's expiry; a negative period ends it at once."""

    hmac: bytes = bytes_()
    expiry_time_period_ms: int = int64()


@message(key=40, versions="0-2", flexible="2+")
class ExpireDelegationTokenResponse:
    """When the token expires now."""

    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """List tokens by owner; null means all the caller may see."""

    owners: list[TokenPrincipal] | None = array(TokenPrincipal, nullable="0+")


@struct
class DescribedDelegationToken:
    """One token."""

    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    renewers: list[TokenPrincipal] = array(TokenPrincipal)


@message(key=41, versions="0-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """The tokens, with their secrets."""

    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
