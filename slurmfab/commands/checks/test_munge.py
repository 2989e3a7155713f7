"""Checks of munge: one key on all hosts, readable only by munge, and credentials that other hosts accept."""

from __future__ import annotations

import re

import pytest

from slurmfab.base.paths import MUNGE_KEY, MUNGE_SOCKET
from slurmfab.commands.checks.applies import Drifted, Seen, foundation
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.munge import has_same_key, need_munged, status_of_credential
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.impact.drift_kinds import CHANGED_FILE, KEY_NOT_LOADED


def test_key_is_safe(host: CheckedHost) -> None:
    """only munge can read the munge key"""
    key = host.file(MUNGE_KEY)
    assert key.exists, f"there is no {MUNGE_KEY}. Repair: {deploy(host.name)}"
    assert (key.user, key.group) == ("munge", "munge"), (
        f"{MUNGE_KEY} belongs to {key.user}:{key.group} instead of munge:munge. Repair: {deploy(host.name)}"
    )
    assert key.mode == 0o400, (
        f"{MUNGE_KEY} has the mode {key.mode:04o} instead of 0400"
        f"{'; others could read it, so consider a new key' if key.mode & 0o044 else ''}. Repair: {deploy(host.name)}"
    )


def test_key_is_the_controllers(other: CheckedHost, controller: CheckedHost) -> None:
    """the munge key is the same as the controller's"""
    for host in (controller, other):
        assert host.file(MUNGE_KEY).exists, f"there is no {MUNGE_KEY} on {host.name}. Repair: {deploy(host.name)}"
    if not has_same_key(other, controller):
        raise Drifted(CHANGED_FILE, f"its munge key differs from {controller.name}'s. Repair: {deploy(other.name)}")


@foundation
def test_credential_of_the_controller_is_believed(other: CheckedHost, controller: CheckedHost) -> None:
    """a credential from the controller is decoded on the host"""
    assert_believed(controller, other, other)


@foundation
def test_controller_believes_the_credential(other: CheckedHost, controller: CheckedHost) -> None:
    """a credential from the host is decoded on the controller"""
    assert_believed(other, controller, other)


def assert_believed(maker: CheckedHost, reader: CheckedHost, other: CheckedHost) -> None:
    """Fail if a credential of one host cannot be decoded on another; skip if munged does not run on both.

    `other`: the one that a repair would deploy to. Raises Drifted for different keys, else AssertionError.
    """
    for host in (maker, reader):
        if not host.file(MUNGE_SOCKET).is_socket:
            pytest.skip(f"munge does not run on {host.name}.")
        need_munged(host)
    status = status_of_credential(maker, reader)
    if status.startswith("Success"):
        return
    problem = f"{reader.name} rejects a credential from {maker.name}: {status}."
    if "Invalid credential" not in status:
        raise Seen("clock" if re.search("Rewound|Expired", status) else "", f"{problem} {advice(status, other)}")
    if has_same_key(maker, reader):
        raise Drifted(
            KEY_NOT_LOADED,
            f"{problem} The two munged use different keys, but both disks have the same key: "
            f"one munged has not loaded it. Repair: {deploy(maker.name, reader.name)}",
        )
    raise Drifted(CHANGED_FILE, f"{problem} The two munged use different keys. Repair: {deploy(other.name)}")


def advice(status: str, other: CheckedHost) -> str:
    """The meaning and repair of a status of unmunge(1)."""
    if "Expired" in status or "Rewound" in status:
        return "The clocks differ by more than munge allows. Repair: run a time service on both hosts"
    return f"Repair: {deploy(other.name)}"
