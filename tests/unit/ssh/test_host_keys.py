"""Who vouches for a host's SSH key."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest
from ssh_keys import ED25519, OTHER, RSA

from slurmfab.base.errors import HostKeyChanged, HostKeyRevoked, HostKeyUnknown
from slurmfab.hosts.host_keys import SIGNATURES, PinnedKey, known_host, refused_types
from slurmfab.hosts.known_hosts import fingerprint
from slurmfab.hosts.route import Route


class ShownKey(paramiko.PKey):
    """A key as a host shows it."""

    def __init__(self, kind: str, value: str) -> None:
        self.kind, self.value = kind, value

    def get_name(self) -> str:
        return self.kind

    def get_base64(self) -> str:
        return self.value


def show(policy: PinnedKey, kind: str = "ssh-ed25519", value: str = ED25519) -> PinnedKey:
    policy.missing_host_key(paramiko.SSHClient(), "n1", ShownKey(kind, value))
    return policy


def test_the_pinned_key_is_let_in_and_remembered() -> None:
    assert show(PinnedKey("n1", {"ssh-ed25519": ED25519})).shown == ("ssh-ed25519", ED25519)


@pytest.mark.parametrize("pinned", [{"ssh-ed25519": OTHER}, {"ssh-rsa": OTHER}])
def test_a_key_that_is_known_of_another_host_names_that_host(pinned: dict[str, str]) -> None:
    with pytest.raises(HostKeyChanged) as changed:
        show(PinnedKey("n1", pinned, owners={ED25519: "n2", OTHER: "n1"}))
    assert "n2 answers at its address" in str(changed.value)
    assert "are those of n1 and n2 swapped?" in str(changed.value)
    # Hosts that were cloned have one key, which may be another's by the lock.
    assert show(PinnedKey("n1", {"ssh-ed25519": ED25519}, owners={ED25519: "n2"})).shown == ("ssh-ed25519", ED25519)


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_flag() -> None:
    policy = PinnedKey("n1", {})
    with pytest.raises(HostKeyUnknown) as unknown:
        show(policy)
    assert policy.shown == ("ssh-ed25519", ED25519)
    assert (unknown.value.host, unknown.value.key) == ("n1", ED25519)
    assert fingerprint(ED25519) in str(unknown.value)
    assert "--accept-new-host-keys" in str(unknown.value)


def test_an_unknown_key_is_let_in_when_the_user_said_so() -> None:
    assert show(PinnedKey("n1", {}, accept_new=True)).shown == ("ssh-ed25519", ED25519)


@pytest.mark.parametrize("accept_new", [False, True])
def test_another_key_than_the_pinned_one_is_refused_whatever_the_user_said(accept_new: bool) -> None:
    with pytest.raises(HostKeyChanged) as changed:
        show(PinnedKey("n1", {"ssh-ed25519": OTHER}, accept_new=accept_new))
    assert fingerprint(ED25519) in str(changed.value)
    assert fingerprint(OTHER) in str(changed.value)


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_key_of_another_type_than_the_pinned_ones_is_not_believed(accept_new: bool) -> None:
    with pytest.raises(HostKeyUnknown):
        show(PinnedKey("n1", {"ssh-rsa": RSA}, accept_new=accept_new))


def test_signatures_are_those_that_the_library_prefers() -> None:
    assert vars(paramiko.Transport)["_preferred_keys"] == SIGNATURES


@pytest.mark.parametrize(
    ("pinned", "left"),
    [
        ({}, list(SIGNATURES)),
        ({"ssh-ed25519": ED25519}, ["ssh-ed25519"]),
        ({"ssh-rsa": RSA}, ["rsa-sha2-512", "rsa-sha2-256"]),
        ({"ssh-rsa": RSA, "ssh-ed25519": ED25519}, ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]),
    ],
)
def test_a_host_is_made_to_show_a_key_of_a_pinned_type(pinned: dict[str, str], left: list[str]) -> None:
    assert [name for name in SIGNATURES if name not in refused_types(pinned)] == left


def test_each_of_several_pinned_keys_of_one_type_is_let_in() -> None:
    policy = PinnedKey("n1", {"ssh-ed25519": (OTHER, ED25519)})
    assert show(policy).shown == ("ssh-ed25519", ED25519)
    with pytest.raises(HostKeyChanged) as changed:
        show(PinnedKey("n1", {"ssh-ed25519": (OTHER, RSA)}))
    assert f"({fingerprint(OTHER)}, {fingerprint(RSA)})" in str(changed.value)


@pytest.mark.parametrize(
    ("pinned", "accept_new"), [({"ssh-ed25519": ED25519}, False), ({}, True), ({"ssh-ed25519": OTHER}, False)]
)
@pytest.mark.parametrize("name", ["n1", "10.0.0.1", "*", "n?,other", "[n1]:2222"])
def test_a_revoked_key_is_refused_whoever_vouches_for_it(
    tmp_path: Path, pinned: dict[str, str], accept_new: bool, name: str
) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"n1,10.0.0.1 ssh-ed25519 {ED25519}\n@revoked {name} ssh-ed25519 {ED25519}\n")
    policy = PinnedKey("n1", pinned, accept_new=accept_new)
    policy.consult(Route("n1", "10.0.0.1", "root", port=2222, known_hosts=(str(path),)))
    with pytest.raises(HostKeyRevoked, match="is never accepted") as revoked:
        show(policy)
    assert str(path) in str(revoked.value)
    assert fingerprint(ED25519) in str(revoked.value)


def test_a_key_that_is_revoked_for_other_hosts_alone_is_let_in(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"@revoked n2,!n1,n* ssh-ed25519 {ED25519}\n@revoked n1 ssh-ed25519 {OTHER}\n")
    policy = PinnedKey("n1", {"ssh-ed25519": ED25519})
    policy.consult(Route("n1", "10.0.0.1", "root", known_hosts=(str(path),)))
    assert show(policy).shown == ("ssh-ed25519", ED25519)


def test_a_key_in_a_file_of_revoked_keys_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "revoked"
    path.write_text(f"# stolen\nssh-ed25519 {ED25519} of n1\n")
    policy = PinnedKey("n1", {"ssh-ed25519": (ED25519, OTHER)})
    policy.consult(Route("n1", "n1", "root", known_hosts=(), revoked_keys=(str(path),)))
    with pytest.raises(HostKeyRevoked, match=str(path)):
        show(policy)
    assert show(policy, value=OTHER).shown == ("ssh-ed25519", OTHER)


def test_a_certificate_authority_makes_no_key_known_and_the_message_says_so(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(f"@cert-authority *,!n2 ssh-ed25519 {ED25519}\n")
    route = Route("n1", "n1", "root", known_hosts=(str(path),))
    policy = PinnedKey("n1", known_host(route).keys())
    policy.consult(route)
    with pytest.raises(HostKeyUnknown, match="slurmfab cannot verify host certificates"):
        show(policy)
    policy.consult(Route("n2", "n2", "root", known_hosts=(str(path),)))
    with pytest.raises(HostKeyUnknown) as unknown:
        show(policy)
    assert "certificates" not in str(unknown.value)


@pytest.mark.parametrize(
    ("route", "names"),
    [
        (Route("n1", "10.0.0.1", "root"), ("n1", "10.0.0.1")),
        (Route("n1", "10.0.0.1", "root", port=2222), ("[n1]:2222", "[10.0.0.1]:2222")),
        (Route("n1", "10.0.0.1", "root", port=2222, key_alias="cluster"), ("cluster",)),
    ],
)
def test_a_host_is_looked_up_by_name_and_address_or_by_its_alias(route: Route, names: tuple[str, ...]) -> None:
    assert known_host(route).names == names
