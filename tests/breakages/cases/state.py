"""slurmctld's state, which holds all jobs: slurmctld never starts without it."""

from __future__ import annotations

from breakage import Breakage, Mended, Told

STATE = "/var/lib/slurm/slurmctld"
STOP = "systemctl stop slurmctld"
"""Writes the state, and leaves it to the row."""

ROWS = (
    Breakage(
        name="state-of-root",
        what="slurmctld's state was restored as root",
        host="ctl",
        breaks=f"{STOP} && chown -R root:root {STATE} && chmod 600 {STATE}/job_state",
        check=(STATE, "root"),
        plan=(f"slurm-state-access:{STATE}", "(of root, mode 0700)"),
        deploy=Mended(),
    ),
    Breakage(
        name="job-list-of-root",
        what="the list of jobs belongs to root (slurmctld would start with an empty queue)",
        host="ctl",
        breaks=f"{STOP} && chown root:root {STATE}/job_state && chmod 600 {STATE}/job_state",
        check=("cannot read and write", f"{STATE}/job_state (of root, mode 600)"),
        plan=("job_state (of root, mode 0600)",),
        deploy=Mended(),
    ),
    Breakage(
        name="job-list-immutable",
        what="the list of jobs is immutable (chattr +i)",
        host="ctl",
        breaks=f"{STOP} && chattr +i {STATE}/job_state",
        check=("cannot read and write", f"{STATE}/job_state"),
        plan=(f"job_state (immutable (lsattr); chattr -i {STATE}/job_state)", "without its jobs"),
        deploy=Told(("job_state (immutable (lsattr)", "without its jobs"), f"chattr -i {STATE}/job_state", 1),
        suites=("bookworm",),  # the other one has no chattr(1)
    ),
    Breakage(
        name="state-read-only",
        what="slurmctld's state is on a file system that is mounted read-only",
        host="ctl",
        breaks=f"{STOP} && mount --bind {STATE} {STATE} && mount -o remount,bind,ro {STATE}",
        check=("cannot read and write", STATE),
        plan=("on a file system that is mounted read-only", "without its jobs"),
        deploy=Told(("on a file system that is mounted read-only",), f"umount {STATE}", 1),
    ),
    Breakage(
        name="state-not-read",
        what="slurmctld was started by hand while it could not read its state",
        host="ctl",
        breaks=f"{STOP} && chown root:root {STATE}/job_state && chmod 600 {STATE}/job_state && "
        "systemctl start slurmctld && sleep 1",
        check=("slurmctld started without the jobs that it knew before", "Could not open job state file", "Permission"),
        deploy=Mended(),
    ),
)
