"""Messages by which clients prove who they are, and administrators say what they may do.

Codes of resource types, pattern types, operations and permissions are Kafka's; 1 means any.
"""

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
)


@message(key=17, versions="0-1")
class SaslHandshakeRequest:
    """Choose a SASL mechanism.

    After version 0 the tokens follow bare, each with its length before it; after version 1 they
    are wrapped in SaslAuthenticate (KIP-152).
    """

    mechanism: str = string()


@message(key=17, versions="0-1")
class SaslHandshakeResponse:
    """Whether the mechanism is taken, and the ones this listener has."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest:
    """One token of the SASL exchange (KIP-152)."""

    auth_bytes: bytes = bytes_()


@message(key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    """The server's token or an error; version 1 says when to authenticate again (KIP-368)."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64("1+")  # 0: for ever


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsRequest:
    """Find access rules (KIP-140); a null filter matches everything, 1+ has prefixes (KIP-290)."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@struct
class AclDescription:
    """One rule on a resource."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DescribeAclsResource:
    """The rules on one resource pattern."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription)


@message(key=29, versions="0-3", flexible="2+")
class DescribeAclsResponse:
    """The rules found, by resource."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


@struct
class AclCreation:
    """One rule to add."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsRequest:
    """Add access rules (KIP-140)."""

    creations: list[AclCreation] = array(AclCreation)


@struct
class AclCreationResult:
    """What became of one rule."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=30, versions="0-3", flexible="2+")
class CreateAclsResponse:
    """What became of each rule, in the order asked."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


@struct
class DeleteAclsFilter:
    """Which rules to delete; null matches everything."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsRequest:
    """Delete all access rules that match filters (KIP-140)."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


@struct
class DeleteAclsMatchingAcl:
    """One rule that matched."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DeleteAclsFilterResult:
    """What one filter deleted."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@message(key=31, versions="0-3", flexible="2+")
class DeleteAclsResponse:
    """The rules each filter deleted, in the order asked."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)


@struct
class ScramUserName:
    """One user."""

    name: str = string()


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Ask which SCRAM credentials users have (KIP-554); null means all users."""

    users: list[ScramUserName] | None = array(ScramUserName, nullable="0+")


@struct
class ScramCredentialInfo:
    """One mechanism a user can log in with: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    mechanism: int = int8()
    iterations: int = int32()


@struct
class DescribeUserScramCredentialsResult:
    """The mechanisms of one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[ScramCredentialInfo] = array(ScramCredentialInfo)


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of each user, never the keys."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


@struct
class ScramCredentialDeletion:
    """One credential to delete."""

    name: str = string()
    mechanism: int = int8()


@struct
class ScramCredentialUpsertion:
    """One credential to set, its password already salted and hashed."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_()


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Set and delete SCRAM credentials (KIP-554); the password itself never travels."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult:
    """What became of one user."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """What became of each user."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)


@message(versions="0", flexible="0+")
class DefaultPrincipal:
    """Who a client is, as a broker tells the controller; an int16 version comes before it."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()
