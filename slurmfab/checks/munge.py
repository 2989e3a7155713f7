"""Munge as the checks ask about it: whether two keys are the same, and what one host makes of another's credential."""

from __future__ import annotations

from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.wanted import MUNGE_KEY, deploy

STATUS = "STATUS:"


def has_same_key(one: CheckedHost, other: CheckedHost) -> bool:
    """Whether two hosts have the same munge key on their disks; only fingerprints travel, and nobody is shown them."""
    fingerprints = {host.as_found.ask("sha256sum %s", MUNGE_KEY) for host in (one, other)}
    return len(fingerprints) == 1


def status_of_credential(maker: CheckedHost, reader: CheckedHost) -> str:
    """What one host says of a credential that another one has just made, such as `Success (0)`; it travels in memory.

    Raises:
        AssertionError: none can be made.
    """
    made = maker.run("munge --no-input")
    assert made.rc == 0, f"no credential can be made on {maker.name} ({last_words(made)}). Repair: {deploy(maker.name)}"
    read = reader.run("unmunge", stdin=made.stdout)
    status = next((line.partition(":")[2].strip() for line in read.stdout.splitlines() if line.startswith(STATUS)), "")
    return status or last_words(read)
