"""A peer: what tells its runs from those of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.access import Access
from benchmarks.programs import timed
from benchmarks.results import Sample

HERE = Path(__file__).parent
TIMEOUT = 300
"""The value of SlurmdTimeout unless a scenario changes it."""


@dataclass(frozen=True)
class Job:
    """What a peer is to make of hosts.

    Args:
        hosts: the way to them, the controller first.
        directory: where its inventory and the munge key of the cluster are.
        timeout: the value of SlurmdTimeout in slurm.conf.
    """

    hosts: Access
    directory: Path
    timeout: int = TIMEOUT

    @property
    def munge_key(self) -> Path:
        """The cluster's munge key, which users of both tools keep on the machine that they deploy from."""
        return self.directory / "munge.key"


@dataclass(frozen=True)
class Peer:
    """Another tool.

    Args:
        name: as in the table.
        version: what is installed.
        argv: the words of a run, once what it needs is in the job's directory.
        environment: variables for it.
    """

    name: str
    version: str
    argv: Callable[[Job], tuple[str, ...]]
    environment: Callable[[Job], dict[str, str]] = field(default=lambda _: {})

    def deploy(self, job: Job) -> Sample:
        """Run it, and tell what that took.

        Raises:
            ProgramFailed: it says that it failed.
        """
        return timed(self.argv(job), cwd=job.directory, environment=self.environment(job))
