"""Comparison of munge keys, and test of a munge credential between two hosts."""

from __future__ import annotations

import pytest

from slurmfab.base.paths import MUNGE_KEY
from slurmfab.commands.checks.daemons import is_frozen
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.system import SOCKET
from slurmfab.commands.checks.wanted import deploy

STATUS = "STATUS:"


def has_same_key(one: CheckedHost, other: CheckedHost) -> bool:
    """Whether two hosts have the same munge key on disk; only SHA-256 sums leave the hosts, and they are not shown."""
    return bool(one.file(MUNGE_KEY).sha256sum == other.file(MUNGE_KEY).sha256sum)


def need_munged(host: CheckedHost) -> None:
    """Skip the check if a signal has stopped munged, for which Slurm would wait; another check reports it."""
    if is_frozen(host, "munge"):
        pytest.skip(f"munged does not answer on {host.name}.")


def status_of_credential(maker: CheckedHost, reader: CheckedHost) -> str:
    """Decode a new credential of one host on another, and return the status of unmunge, such as `Success (0)`.

    The credential is never written to a disk. `maker`: the host that makes the credential. `reader`: the host that
    decodes it. Raises AssertionError if munge cannot make a credential.
    """
    made = maker.run(f"munge --no-input --socket={SOCKET}")
    assert made.rc == 0, (
        f"munge cannot make a credential on {maker.name} ({last_words(made)}). Repair: {deploy(maker.name)}"
    )
    read = reader.run(f"unmunge --socket={SOCKET}", stdin=made.stdout)
    status = next((line.partition(":")[2].strip() for line in read.stdout.splitlines() if line.startswith(STATUS)), "")
    return status or last_words(read)
