"""The check of a host's SSH key before a login, against the keys that are known for it and those that are revoked."""

from __future__ import annotations

from collections.abc import Mapping

import paramiko

from slurmfab.base.errors import HostKeyChanged, HostKeyRevoked, HostKeyUnknown
from slurmfab.base.ip_addresses import canonical
from slurmfab.hosts.known_hosts import HostKey, KnownHost, fingerprint, spelled
from slurmfab.hosts.route import Route

RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")
SIGNATURES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", *RSA_SIGNATURES)
"""The host key algorithms that paramiko 5 accepts, best first; a test compares them with the library."""

NO_KEYS: Mapping[str, str] = {}


class PinnedKey(paramiko.MissingHostKeyPolicy):
    """The check of a host key that paramiko calls before a login.

    Fabric accepts any key by default, and paramiko's own table of known hosts takes quadratic time to load; so every
    connection gets one of these, and paramiko is given no table at all. `pinned`: its known public keys, base64 by
    type, one or several of each; empty if none is known. `accept_new`: whether any key is accepted from a host without
    known keys. `owners`: names of hosts by keys that are known for them.
    """

    def __init__(
        self,
        host: str,
        pinned: Mapping[str, str | tuple[str, ...]],
        *,
        accept_new: bool = False,
        owners: Mapping[str, str] = NO_KEYS,
    ) -> None:
        self.host = host
        self.owners = owners
        self.address = ""
        self.pinned = {kind: (keys,) if isinstance(keys, str) else keys for kind, keys in pinned.items()}
        self.accept_new = accept_new
        self.shown: HostKey | None = None
        self.known_host = KnownHost((host,))

    def consult(self, route: Route) -> None:
        """Refuse keys that the user's files revoke for the host at the end of a route; `connect` calls this.

        So a revoked key is refused whoever vouches for it: known_hosts, the lock or the user.
        """
        self.known_host = known_host(route)
        self.address = route.address

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
        """Accept the key, which is in `shown`, by returning; else HostKeyRevoked, HostKeyUnknown or HostKeyChanged."""
        kind, value = self.shown = HostKey(key.get_name(), key.get_base64())
        revoked_in = self.known_host.revoked_in(self.shown)
        if revoked_in:
            raise HostKeyRevoked(self.host, kind, fingerprint(value), revoked_in)
        known = self.pinned.get(kind)
        owner = self.owners.get(value, self.host)
        if owner != self.host and self.pinned and value not in (known or ()):
            raise HostKeyChanged(
                self.host,
                f"{owner} answers at {self.address or 'its address'}: the SSH host key there ({fingerprint(value)}) is "
                f"the one that the lock has for {owner}. Correct the address of {self.host} (addresses in the cluster "
                f"file, DNS or ssh_config); are those of {self.host} and {owner} swapped?",
            )
        if known is None and not (self.accept_new and not self.pinned):
            raise HostKeyUnknown(
                self.host, kind, value, fingerprint(value), has_authority=self.known_host.has_authority()
            )
        if known is not None and value not in known:
            before = ", ".join(map(fingerprint, known))
            raise HostKeyChanged(
                self.host,
                f"its SSH host key ({fingerprint(value)}) differs from the pinned one ({before}). "
                "If the host was reinstalled, remove its host_keys from the cluster's lock file; otherwise another "
                "machine may be intercepting the connection.",
            )


def refused_types(pinned: Mapping[str, object]) -> list[str]:
    """The host key algorithms to disable, so that the host shows a key of a pinned type."""
    if not pinned:
        return []
    wanted = set(pinned) | (set(RSA_SIGNATURES) if "ssh-rsa" in pinned else set())
    return [name for name in SIGNATURES if name not in wanted]


def changed_key_text(host: str, pinned: Mapping[str, tuple[str, ...]], shown: HostKey) -> str:
    """The lines that tell of a host whose key is none of the pinned ones, with all fingerprints."""
    known = [f"{kind} {fingerprint(key)}" for kind, keys in sorted(pinned.items()) for key in keys]
    before = ", ".join(known) or "unknown"
    return (
        f"{host}: it shows another SSH host key than before.\n  before: {before}\n"
        f"  now:    {shown.kind} {fingerprint(shown.base64)}"
    )


def known_host(route: Route) -> KnownHost:
    """What the user's files say about the host at the end of a route, by its name and its address, or by its alias."""
    # ssh(1) compares names as they are typed, so an IPv6 address is looked up in its usual spelling too.
    places = dict.fromkeys((route.host, route.address, canonical(route.address)))
    names = (route.key_alias,) if route.key_alias else tuple(spelled(place, route.port) for place in places)
    return KnownHost(names, route.known_hosts, route.revoked_keys)
