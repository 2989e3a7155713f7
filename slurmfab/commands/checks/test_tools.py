"""Checks of the commands for users."""

from __future__ import annotations

import json

from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.commands.checks.wanted import deploy

USER = "nobody"  # an ordinary user whom every host has
ASKED = f"runuser -u {USER} -- sstatus --json"  # what a user calls; it runs in a directory that the user can enter


def test_sstatus_answers_users(helping_host: CheckedHost, slurm: Slurm) -> None:  # noqa: ARG001 - sstatus needs it
    """`sstatus` answers an ordinary user"""
    done = helping_host.run(f"cd / && {ASKED}")
    assert done.rc == 0, f"`{ASKED}` fails: {last_words(done)}. Repair: {deploy(helping_host.name)}"
    try:
        version = json.loads(done.stdout)["version"]
    except (KeyError, TypeError, ValueError):
        version = None
    assert version == 1, f"`{ASKED}` prints something else than the state. Repair: {deploy(helping_host.name)}"
