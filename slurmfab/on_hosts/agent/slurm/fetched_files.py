"""Configless Slurm, node's side: slurmd fetches Slurm's files from slurmctld and has the right ones."""

from __future__ import annotations

import hashlib
import os
import time
from typing import ClassVar, Dict, Optional, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.core.reading import read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.facts.slurm_use import after
from slurmfab.on_hosts.agent.services.process import process_start
from slurmfab.on_hosts.agent.services.service import RUNS, Service, changed_at, show

FETCHED_LINK = "/run/slurm/conf"
"""Link that slurmd sets to the files it has fetched, for Slurm's commands (slurm.schedmd.com, Configless Slurm)."""

SLURM_CONF = "slurm.conf"
AS_WANTED = "as in the cluster file"
CARRY_SECONDS = 10.0  # time that slurmctld gets to send new files to this node
HANDOVER_SECONDS = 5.0  # time that slurmd gets to start a new process after it received new files (from Slurm 23.11)

FETCH_SECONDS = 30.0
"""Time that slurmd gets to fetch the files after a restart; without an answer from slurmctld it retries after 10 s."""


class FetchedFiles(Resource):
    """slurmd uses these controllers as configuration servers and has fetched the files of the cluster file.

    The age of slurmd's process does not show whether it uses its unit's drop-in: from Slurm 23.11 on, each reconfigure
    starts a new process with the arguments of the old one. So the arguments are compared.
    """

    kind: ClassVar[str] = "fetched-files"
    only_name: ClassVar[str] = FETCHED_LINK
    own_units: ClassVar[Tuple[str, ...]] = ("slurmd",)
    servers: str  # the value of `--conf-server`, such as `10.0.0.1:6817`
    files: Tuple[Tuple[str, str], ...]  # name and SHA-256 of each file, as on the controllers
    # Whether slurmctld was just told to send new files to every slurmd, so that waiting is enough.
    carried: bool = False

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The servers, and every file as in the cluster file."""
        return {"fetched from": self.servers, **{name: AS_WANTED for name, _ in self.files}}

    def actual(self, context: Context) -> State:
        """The servers that slurmd was started with, and the files that it has fetched."""
        state: Dict[str, object] = {"fetched from": asked_servers(context)}
        for name, digest in self.files:
            path = os.path.join(fetched_directory(context), name)
            content = replace.read(path)
            if content is not None:
                content = whole(path, content)
                state[name] = AS_WANTED if hashlib.sha256(content).hexdigest() == digest else "different"
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Wait for slurmctld to send the files, or restart slurmd to fetch them; ResourceFailed if that fails."""
        if self.carried and self.wait_for_files(context, CARRY_SECONDS):
            # If slurmd is restarted during the handover to its new process, it hangs until systemd kills it.
            wait_for_handover(context)
            if "fetched from" not in differing:
                return
        # systemd 252 does not notice by itself that a unit has got its first drop-in (NeedDaemonReload stays "no").
        context.must(["systemctl", "daemon-reload"])
        Service("slurmd").start(context, "restart")
        if not self.wait_for_files(context, FETCH_SECONDS):
            raise ResourceFailed(
                "slurmd fetched other files than expected, or none, from %s within %d s. Can it reach that port, and "
                "does slurmctld run there with the new files? See slurmd.log here and slurmctld.log there"
                % (self.servers, FETCH_SECONDS)
            )

    def wait_for_files(self, context: Context, seconds: float) -> bool:
        """Wait up to `seconds` for the files, and return whether all are as wanted."""
        deadline = time.monotonic() + seconds
        while True:
            state = self.actual(context)
            if all(state.get(name) == AS_WANTED for name, _ in self.files):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)


def asked_servers(context: Context) -> Optional[str]:
    """The running slurmd's `--conf-server`; `None` if slurmd does not run or uses local files."""
    shown = show(context, "slurmd")
    pid = shown.get("MainPID", "0")
    if shown.get("ActiveState") not in RUNS or pid == "0":
        return None
    arguments = read_bytes("/proc/%s/cmdline" % pid).decode(errors="replace").split("\0")
    return after("--conf-server", arguments) or None


def fetched_directory(context: Context) -> str:
    """The real directory of the fetched files: slurmd owns the link, and only root can read the directory."""
    return os.path.realpath(context.path(FETCHED_LINK))


def wait_for_handover(context: Context) -> None:
    """Wait until slurmd's main process is younger than the files it received, at most `HANDOVER_SECONDS`."""
    deadline = time.monotonic() + HANDOVER_SECONDS
    since = changed_at(os.path.join(fetched_directory(context), SLURM_CONF))
    while time.monotonic() < deadline:
        if process_start(int(show(context, "slurmd").get("MainPID", "0") or 0)) > since:
            return
        time.sleep(0.1)
