"""A slurmd that fetches Slurm's files from slurmctld, and has those that slurmctld is to have."""

from __future__ import annotations

import hashlib
import os
import time
from typing import ClassVar, Dict, Optional, Tuple

from slurmfab.agent import replace
from slurmfab.agent.reading import read_bytes
from slurmfab.agent.resource import Context, Resource, ResourceFailed, State
from slurmfab.agent.service import RUNS, Service, changed_at, process_start, show

PLACE = "/run/slurm/conf"
"""Where slurmd links to what it has fetched, for Slurm's commands (slurm.schedmd.com, Configless Slurm)."""

MAIN = "slurm.conf"
OPTION = "--conf-server"
AS_WANTED = "as slurmctld is to have it"
CARRY_SECONDS = 10.0
"""How long slurmctld may take to carry new files here."""

HANDOVER_SECONDS = 5.0
"""How long slurmd may take to hand over to a new process after it was given new files (from Slurm 23.11)."""

FETCH_SECONDS = 30.0
"""How long slurmd may take to fetch files after a restart; one that finds no slurmctld tries again after 10 s."""


class FetchedFiles(Resource):
    """slurmd asks these controllers for its files, and has got those that are wanted there.

    That its process is younger than its unit's drop-in would not tell: from Slurm 23.11 on each reconfigure makes a new
    process, with the arguments of the one before. So its arguments are looked at.

    Args:
        servers: what `--conf-server` has, such as `10.0.0.1:6817`.
        files: name and SHA-256 of each file, as on the controllers.
        carried: whether slurmctld has just been told to carry new files to every slurmd, so that there is only to wait.
    """

    kind: ClassVar[str] = "fetched-files"
    servers: str
    files: Tuple[Tuple[str, str], ...]
    carried: bool = False

    def name(self) -> str:
        """Where they are."""
        return PLACE

    def units(self) -> Tuple[str, ...]:
        """slurmd."""
        return ("slurmd",)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Fetched from these controllers, and equal."""
        return {"fetched from": self.servers, **{name: AS_WANTED for name, _ in self.files}}

    def actual(self, context: Context) -> State:
        """What slurmd was told when it started, and what it has got."""
        state: Dict[str, object] = {"fetched from": asked_servers(context)}
        for name, digest in self.files:
            content = replace.read(os.path.join(fetched_into(context), name))
            if content is not None:
                state[name] = AS_WANTED if hashlib.sha256(content).hexdigest() == digest else "another"
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Wait for slurmctld to carry them here, or have slurmd fetch them when it starts.

        Raises:
            ResourceFailed: slurmd does not start, or gets other files.
        """
        if self.carried and self.has_come(context, CARRY_SECONDS):
            # A slurmd that is restarted while it hands over to its new process is stuck until systemd kills it.
            wait_for_handover(context)
            if "fetched from" not in differing:
                return
        # systemd 252 does not notice by itself that a unit has got its first drop-in (NeedDaemonReload stays "no").
        context.must(["systemctl", "daemon-reload"])
        Service("slurmd").start(context, "restart")
        if not self.has_come(context, FETCH_SECONDS):
            raise ResourceFailed(
                "slurmd did not get what the cluster file says from %s within %d s: can it reach that port, and does "
                "slurmctld run there with the new files? See slurmd.log here, slurmctld.log there"
                % (self.servers, FETCH_SECONDS)
            )

    def has_come(self, context: Context, seconds: float) -> bool:
        """Whether all files are as wanted within some time."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.actual(context)
            if all(state.get(name) == AS_WANTED for name, _ in self.files):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)


def asked_servers(context: Context) -> Optional[str]:
    """The controllers that the running slurmd was told to ask; `None` where it does not run, or has its own files."""
    shown = show(context, "slurmd")
    pid = shown.get("MainPID", "0")
    if shown.get("ActiveState") not in RUNS or pid == "0":
        return None
    words = read_bytes("/proc/%s/cmdline" % pid).decode(errors="replace").split("\0")
    return words[words.index(OPTION) + 1] if OPTION in words[:-1] else None


def fetched_into(context: Context) -> str:
    """The directory of the fetched files; the link to it is slurmd's, and its own directory root's alone."""
    return os.path.realpath(context.path(PLACE))


def wait_for_handover(context: Context) -> None:
    """Wait until the main process is younger than the files that it was given, or nothing more is to be expected."""
    deadline = time.monotonic() + HANDOVER_SECONDS
    since = changed_at(os.path.join(fetched_into(context), MAIN))
    while time.monotonic() < deadline:
        if process_start(int(show(context, "slurmd").get("MainPID", "0") or 0)) > since:
            return
        time.sleep(0.1)
