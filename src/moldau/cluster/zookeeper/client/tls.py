"""How the connection to ZooKeeper is encrypted: files in PEM form, and what is checked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moldau.base.errors import UserError

if TYPE_CHECKING:
    # OpenSSL takes megabytes, and most brokers do without it.
    import ssl


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """What `zookeeper.ssl.*` asks for. The server's certificate is verified in any case."""

    truststore: str | None = None
    """Certificates of whoever may have signed the server's; None is what the system trusts."""
    keystore: str | None = None
    """The private key of this broker, and its certificates; None for no certificate."""
    keystore_password: str | None = field(default=None, repr=False)
    checks_host_name: bool = True
    oldest: str = "TLSv1_2"
    newest: str = "MAXIMUM_SUPPORTED"
    """Names of `ssl.TLSVersion`."""

    def make_context(self) -> ssl.SSLContext:
        """Read the files; UserError if one cannot be used."""
        import ssl  # noqa: PLC0415 - as above

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host_name
        context.minimum_version = ssl.TLSVersion[self.oldest]
        context.maximum_version = ssl.TLSVersion[self.newest]
        if self.truststore is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            try:
                context.load_verify_locations(self.truststore)
            except OSError as error:
                raise _unusable("truststore", self.truststore, error) from error
        if self.keystore is not None:
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                context.load_cert_chain(self.keystore, password=self.keystore_password or "")
            except (OSError, ValueError) as error:
                raise _unusable("keystore", self.keystore, error) from error
        return context


def _unusable(store: str, path: str, error: Exception) -> UserError:
    import ssl  # noqa: PLC0415 - as above

    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError):
        reason = error.strerror or str(error)
    else:
        reason = f"not in PEM form, or not for this password: {error}"
    return UserError(f"zookeeper.ssl.{store}.location={path}: {reason}")
