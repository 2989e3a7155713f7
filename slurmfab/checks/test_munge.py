"""Munge: one key on all hosts, safe from readers, and credentials that are believed on the other side."""

from __future__ import annotations

import pytest

from slurmfab.checks.daemons import daemons
from slurmfab.checks.drifted import Drifted
from slurmfab.checks.foundation import foundation
from slurmfab.checks.hosts import CheckedHost
from slurmfab.checks.munge import has_same_key, status_of_credential
from slurmfab.checks.wanted import MUNGE_KEY, deploy
from slurmfab.plans.kinds_of_drift import CHANGED_FILE, KEY_NOT_LOADED


def test_key_is_safe(host: CheckedHost) -> None:
    """the munge key is munge's alone"""
    key = daemons(host).munge_key
    assert key is not None, f"there is no {MUNGE_KEY}. Repair: {deploy(host.name)}"
    user, group, mode = key
    assert (user, group) == ("munge", "munge"), (
        f"{MUNGE_KEY} belongs to {user}:{group} instead of munge:munge. Repair: {deploy(host.name)}"
    )
    assert mode == 0o400, (
        f"{MUNGE_KEY} has the mode {mode:04o} instead of 0400"
        f"{'; others could read it, so think of a new key' if mode & 0o044 else ''}. Repair: {deploy(host.name)}"
    )


def test_key_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """the munge key is the same as the controller's"""
    for host in (controller, other):
        assert daemons(host).munge_key, f"there is no {MUNGE_KEY} on {host.name}. Repair: {deploy(host.name)}"
    if not has_same_key(other, controller):
        raise Drifted(
            CHANGED_FILE, f"its munge key is another one than {controller.name}'s. Repair: {deploy(other.name)}"
        )


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
        if not daemons(host).has_munge_socket:
            pytest.skip(f"munge does not run on {host.name}.")
    status = status_of_credential(maker, reader)
    if status.startswith("Success"):
        return
    said = f"a credential from {maker.name} is not believed on {reader.name}: {status}."
    if "Invalid credential" not in status:
        raise AssertionError(f"{said} {advice(status, other)}")
    if has_same_key(maker, reader):
        raise Drifted(
            KEY_NOT_LOADED,
            f"{said} The two munged run with different keys, and the same key is on both disks: one has not loaded it. "
            f"Repair: {deploy(maker.name, reader.name)}",
        )
    raise Drifted(CHANGED_FILE, f"{said} The two munged run with different keys. Repair: {deploy(other.name)}")


def advice(status: str, other: CheckedHost) -> str:
    """What a status of unmunge(1) means, and what to do."""
    if "Expired" in status or "Rewound" in status:
        return "The clocks differ by more than munge lets pass. Repair: make a time service work on both"
    return f"Repair: {deploy(other.name)}"
