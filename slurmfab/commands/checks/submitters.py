"""Who submits test jobs: a user of a host, and the one whose job stands for those of all users."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost

PATH = "/usr/local/bin:/usr/bin:/bin"  # PATH of the jobs' user, without that user's profile
NOBODY = "nobody"  # a user that every host has, with the same number, and who may do nothing


@dataclass(frozen=True)
class Person:
    """A user who submits jobs."""

    name: str
    home: str  # home directory; jobs start there, and write their output there

    @property
    def command(self) -> tuple[str, ...]:
        """The prefix that runs a command as this user, without root's environment."""
        own = (f"HOME={self.home}", f"USER={self.name}", f"LOGNAME={self.name}", "SHELL=/bin/sh", f"PATH={PATH}")
        return ("runuser", "-u", self.name, "--", "env", "-i", *own)

    def line(self, *command: str) -> str:
        """The command line, for a root shell, that runs a command as this user."""
        return f"cd /tmp && {shlex.join([*self.command, *command])}"


def person(host: CheckedHost, name: str) -> Person:
    """A user of a host, by login name. Raises InputError if the host has no such user."""
    fields = host.run("getent passwd %s", name).stdout.strip().split(":")
    if len(fields) < 7:
        raise InputError(f"--user {name}: there is no such user on {host.name}.")
    return Person(name, fields[5])


def ordinary(cluster: Cluster, host: CheckedHost) -> Person | None:
    """The user whose job stands for those of all: the first of the cluster file whom a host knows, else nobody.

    Where jobs need an account, one who has one; `None` if there is none.
    """
    named = [one.name for one in cluster.users if one.accounts or not cluster.enforces_accounts]
    for name in (*named, *(() if cluster.enforces_accounts else (NOBODY,))):
        with suppress(InputError):
            return person(host, name)
    return None
