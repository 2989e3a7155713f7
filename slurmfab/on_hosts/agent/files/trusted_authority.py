"""The authority of the cluster's own image registry among those that all programs of a host trust."""

from __future__ import annotations

import os
from typing import ClassVar, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.reading import read_text
from slurmfab.on_hosts.agent.core.resource import Context, Resource, State

FILE = "/usr/local/share/ca-certificates/slurmfab-registry.crt"
STORE, LINK = "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/slurmfab-registry.pem"
"""What update-ca-certificates(8) makes: all certificates in one file, and a link to each."""

TRUSTED, NO, YES, ANOTHER = "trusted by the system", "no", "yes", "another one"


class TrustedAuthority(Resource):
    """A certificate in the system's own store, by the system's own command; such as Apptainer and curl look there."""

    kind: ClassVar[str] = "trusted-authority"
    only_name: ClassVar[str] = "registry"
    text: str  # the certificate in PEM; empty if it is not to be there

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """The certificate and the store."""
        return (FILE, STORE)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Trusted, or not."""
        return {TRUSTED: YES if self.text else NO}

    def actual(self, context: Context) -> State:
        """Whether this certificate is trusted, or another one with its name."""
        there, store = read_text(context.path(FILE)), read_text(context.path(STORE))
        has_link = os.path.lexists(context.path(LINK))
        if not there and not has_link:
            return {TRUSTED: NO}
        is_right = has_link and there == self.text.strip() and there in store
        return {TRUSTED: YES if is_right and there else ANOTHER}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Write or remove the certificate, and renew the system's store; ResourceFailed if that fails."""
        if self.text:
            replace.put(context.path(FILE), self.text.encode(), 0, 0, 0o644, make=True)
        else:
            replace.unlink(context.path(FILE))
        # Without the option, a link to a certificate that is gone stays.
        context.must(["update-ca-certificates", *(() if self.text else ("--fresh",))])
