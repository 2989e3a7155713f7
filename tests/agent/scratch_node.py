"""A compute node below a scratch root, with jobs of which some have directories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostile_directory import OTHER

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.scratch.job_directories import make, opened

NFS = "30 20 0:44 / /scratch rw - nfs4 nas:/scratch rw\n"
DISK = "30 20 8:2 / /scratch rw - xfs /dev/sdb1 rw\n"
HERE = "/scratch"
UID = OTHER if os.geteuid() == 0 else os.getuid()


class Node(Context):
    """A compute node below a scratch root, on which some jobs have steps, and of which Slurm knows some jobs."""

    def __init__(self, root: Path, steps: Sequence[int] = (), known: Sequence[int] | None = ()) -> None:
        super().__init__(str(root))
        self.known = known
        self.asked: list[Sequence[str]] = []
        self.mount("20 1 0:18 / / rw - ext4 /dev/sda1 rw\n")
        for job in steps:
            place = root / f"proc/{1000 + job}"
            place.mkdir(parents=True)
            (place / "cmdline").write_text(f"slurmstepd: [{job}.extern]")
            (place / "stat").write_text(f"{1000 + job} (slurmstepd) S 1 0 0")
            (place / "status").write_text("Name:\tslurmstepd\nUid:\t0\t0\t0\t0\n")
            (place / "exe").symlink_to("/usr/sbin/slurmstepd")

    def mount(self, table: str) -> None:
        place = Path(self.path("/proc/self"))
        place.mkdir(parents=True, exist_ok=True)
        (place / "mountinfo").write_text(table)

    def run(self, argv: Sequence[str], *_: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        self.asked.append(argv)
        mark = more.get("env", {}).get("SQUEUE_FORMAT2", ":").partition(":")[2]
        text = "".join(f"{job}{mark}\n" for job in self.known or ())
        return subprocess.CompletedProcess(argv, int(self.known is None), text.encode(), b"down")

    def must(self, argv: Sequence[str], *_: Any, **more: Any) -> str:
        done = self.run(argv, **more)
        if done.returncode:
            raise ResourceFailed("squeue: Unable to contact slurm controller")
        return done.stdout.decode()


def made(node: Node, job: str = "7") -> Path:
    """The directory of a job."""
    with opened(node, HERE) as folder:
        make(node, folder, job, UID, -1)
    return Path(node.path(HERE)) / job
