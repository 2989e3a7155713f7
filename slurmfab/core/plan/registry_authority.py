"""The authority of the cluster's image registry: which certificate the other hosts get into their trust stores.

The registry's host makes its key, and a host's word counts for itself alone. So a certificate is taken only if it is
exactly the one that slurmfab makes for the names of the cluster file. It then stays in the lock: another one has to be
allowed.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Collection, Container, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from slurmfab.base.ip_addresses import NO_ADDRESS, family
from slurmfab.base.program_name import FAB
from slurmfab.core.impact.disruptive_changes import REGISTRY_AUTHORITY
from slurmfab.core.plan.own_address import trusted_address
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.core.host_paths import REGISTRY
from slurmfab.on_hosts.agent.files.server_certificate import AUTHORITY_DAYS, DAYS, TITLE

if TYPE_CHECKING:
    from cryptography import x509

SKEW = timedelta(days=1)  # how far ahead of this machine's a host's clock may have been
NO_ADDRESSES = ["0.0.0.0/0", "::/0"]  # what an authority excludes that vouches for names alone


NO_USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "encipher_only", "decipher_only",
)  # fmt: skip
"""What the authority's key is not for (RFC 5280, 4.2.1.3)."""


class Taken(NamedTuple):
    """What becomes of the certificate that the registry's host tells of."""

    certificate: str  # what other hosts trust (PEM, without the end of its last line); empty for nothing yet
    doubt: str = ""  # why what the host tells of is not taken; empty if it is, or if it tells of none
    is_other: bool = False  # whether it is one of slurmfab's make, but not the one that the lock has


def certified(plan_input: PlanInput) -> tuple[str, ...]:
    """All names and addresses by which hosts reach the registry, sorted; none of them has only its host's word."""
    registry = plan_input.cluster.registry
    assert registry is not None, "only a registry has names"
    host = registry.host
    # Without a name among the constraints, an authority may vouch for every name (RFC 5280, 4.2.1.10): a host has one,
    # as the cluster file takes no address for a name.
    return tuple(sorted({host, plan_input.address(host), trusted_address(plan_input, host, registry.address or "")}))


def judge(plan_input: PlanInput, allowed: Collection[str] = ()) -> Taken:
    """What other hosts trust from now on; `plan_input` has the lock as it was. `allowed`: the names of `--allow`."""
    registry, known = plan_input.cluster.registry, plan_input.lock.registry_ca
    if registry is None:
        return Taken("")
    names, may_change = certified(plan_input), REGISTRY_AUTHORITY in allowed
    if known and trouble(known, ()):
        known = ""
    facts = plan_input.facts.get(registry.host)
    told = facts.registry_ca if facts else known
    if told in ("", known):
        return Taken("" if may_change and not told else known)
    if reason := trouble(told, names):
        why = f"the certificate that it has for the authority of its image registry is not slurmfab's: {reason}"
        return Taken("" if may_change else known, f"{why}. No other host trusts it")
    if serves(known, names) and not may_change:
        return Taken(
            known,
            f"the authority of its image registry (SHA-256 {fingerprint(told)[:16]}…) is not the one that the lock has "
            f"({fingerprint(known)[:16]}…), so no other host trusts it. If this host was reinstalled or replaced, "
            f"take it: {FAB} deploy --allow {REGISTRY_AUTHORITY}. If not, see who has changed {REGISTRY}",
            is_other=True,
        )
    return Taken(told)


def serves(certificate: str, names: Collection[str]) -> bool:
    """Whether an authority can sign certificates for these names, so that nobody needs another one; not for none."""
    from cryptography import x509

    if not certificate or trouble(certificate, names):
        return False
    rest = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc - datetime.now(UTC)
    return rest > timedelta(days=DAYS + 1)


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate as text, by which its host knows it; empty for none."""
    return hashlib.sha256(f"{certificate}\n".encode()).hexdigest() if certificate else ""


def trouble(text: str, names: Collection[str]) -> str:
    """Why a certificate is not the one that slurmfab makes for a registry with these names; empty if it is.

    `names`: sorted; empty for those that the certificate has itself.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        return next(_differences(text, x509.load_pem_x509_certificate(text.encode()), names), "")
    except InvalidSignature:
        return "its own key has not signed it"
    except (ValueError, TypeError, UnicodeError, x509.DuplicateExtension, x509.ExtensionNotFound) as error:
        return f"it cannot be read: {error}"


def _differences(text: str, found: x509.Certificate, names: Collection[str]) -> Iterator[str]:
    """Yield what a certificate has otherwise than slurmfab makes it; raises InvalidSignature, or ValueError, too."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    if found.public_bytes(Encoding.PEM).decode().strip() != text.strip():
        yield "it is not one certificate and nothing else"
    extensions = {one.oid: (one.critical, one.value) for one in found.extensions}
    constraints = extensions.get(x509.NameConstraints.oid, (False, None))[1]
    if not isinstance(constraints, x509.NameConstraints):
        yield "it has no name constraints, so it could vouch for every server"
        return
    trees = constraints.permitted_subtrees or []
    permitted = sorted(str(one.value).removesuffix("/32").removesuffix("/128") for one in trees)
    wanted = tuple(names or permitted)
    numbers = [ipaddress.ip_network(one) for one in wanted if family(one) != NO_ADDRESS]
    subtrees: list[x509.GeneralName] = [x509.DNSName(one) for one in wanted if family(one) == NO_ADDRESS]
    subtrees += [x509.IPAddress(one) for one in numbers]
    if len(trees) != len(wanted) or set(trees) != set(subtrees):
        yield f"it vouches for {' '.join(permitted)[:200]}, and not for {' '.join(wanted)} alone"
    key = found.public_key()
    identifier = x509.SubjectKeyIdentifier.from_public_key(key)
    everywhere = [x509.IPAddress(ipaddress.ip_network(one)) for one in NO_ADDRESSES]
    # Compared above and below, because the order of the names is openssl's.
    extensions[constraints.oid] = (extensions[constraints.oid][0], x509.NameConstraints(subtrees, None))
    is_right = constraints.excluded_subtrees == (None if numbers else everywhere)
    if not is_right or extensions != _extensions(identifier, subtrees, extensions):
        yield "it has other extensions than slurmfab gives it"
    title = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (TITLE % ("images", wanted[-1]))[:64])])
    if found.subject != title or found.issuer != title:
        yield f"its name is {found.subject.rfc4514_string()[:100]}"
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        yield "its key is of another kind than slurmfab makes"
    now, begins, ends = datetime.now(UTC), found.not_valid_before_utc, found.not_valid_after_utc
    if ends - begins != timedelta(days=AUTHORITY_DAYS) or begins > now + SKEW or ends <= now:
        yield f"it is valid from {begins:%Y-%m-%d} to {ends:%Y-%m-%d}"
    found.verify_directly_issued_by(found)


def _extensions(
    identifier: x509.SubjectKeyIdentifier, subtrees: Sequence[x509.GeneralName], there: Container[x509.ObjectIdentifier]
) -> dict[x509.ObjectIdentifier, tuple[bool, x509.ExtensionType]]:
    """The extensions of an authority that vouches for these names, each with whether it is critical."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    by = x509.AuthorityKeyIdentifier(identifier.digest, None, None)  # which some versions of openssl add
    return {
        x509.NameConstraints.oid: (True, x509.NameConstraints(subtrees, None)),
        x509.BasicConstraints.oid: (True, x509.BasicConstraints(ca=True, path_length=0)),
        x509.KeyUsage.oid: (True, x509.KeyUsage(**dict.fromkeys(NO_USES, False), key_cert_sign=True, crl_sign=True)),
        x509.ExtendedKeyUsage.oid: (False, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])),
        x509.SubjectKeyIdentifier.oid: (False, identifier),
        **({by.oid: (False, by)} if by.oid in there else {}),
    }
