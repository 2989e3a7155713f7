"""Munge: one key on all hosts, safe from readers, and credentials that are believed on the other side."""

from __future__ import annotations

import pytest

from slurmfab.checks.foundation import foundation
from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import MUNGE_KEY, MUNGE_SOCKET, deploy

DECODED = "STATUS:"


def test_key_is_safe(host: CheckedHost) -> None:
    """the munge key is munge's alone"""
    key = host.file(MUNGE_KEY)
    assert key.exists, f"there is no {MUNGE_KEY}. Repair: {deploy(host.name)}"
    assert (key.user, key.group) == ("munge", "munge"), (
        f"{MUNGE_KEY} belongs to {key.user}:{key.group} instead of munge:munge. Repair: {deploy(host.name)}"
    )
    assert key.mode == 0o400, (
        f"{MUNGE_KEY} has the mode {key.mode:04o} instead of 0400"
        f"{'; others could read it, so think of a new key' if key.mode & 0o044 else ''}. Repair: {deploy(host.name)}"
    )


def test_key_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """the munge key is the same as the controller's"""
    for host in (controller, other):
        assert host.file(MUNGE_KEY).exists, f"there is no {MUNGE_KEY} on {host.name}. Repair: {deploy(host.name)}"
    same = other.file(MUNGE_KEY).sha256sum == controller.file(MUNGE_KEY).sha256sum
    assert same, f"its munge key is another one than {controller.name}'s. Repair: {deploy(other.name)}"


@foundation
def test_credential_of_the_controller_is_believed(other: CheckedHost, controller: CheckedHost) -> None:
    """a credential made on the controller is decoded"""
    assert_believed(controller, other, other)


@foundation
def test_controller_believes_the_credential(other: CheckedHost, controller: CheckedHost) -> None:
    """a credential is decoded on the controller"""
    assert_believed(other, controller, other)


def assert_believed(maker: CheckedHost, reader: CheckedHost, other: CheckedHost) -> None:
    """Fail unless a credential that is made on one host is decoded on another; it travels in memory alone."""
    for host in (maker, reader):
        if not host.file(MUNGE_SOCKET).is_socket:
            pytest.skip(f"munge does not run on {host.name}.")
    made = maker.run("munge --no-input")
    assert made.rc == 0, f"no credential can be made on {maker.name} ({last_words(made)}). Repair: {deploy(maker.name)}"
    read = reader.run("unmunge", stdin=made.stdout)
    status = next((line.partition(":")[2].strip() for line in read.stdout.splitlines() if line.startswith(DECODED)), "")
    said = status or last_words(read)
    assert status.startswith("Success"), (
        f"a credential from {maker.name} is not believed on {reader.name}: {said}. {advice(status, other)}"
    )


def advice(status: str, other: CheckedHost) -> str:
    """What a status of unmunge(1) means, and what to do."""
    if "Expired" in status or "Rewound" in status:
        return "The clocks differ by more than munge lets pass. Repair: make a time service work on both"
    if "Invalid credential" in status:
        return f"The two munged run with different keys. Repair: {deploy(other.name)}"
    return f"Repair: {deploy(other.name)}"
