"""slurmctld's state, which holds all jobs: slurmctld never starts without it."""

from __future__ import annotations

from breakage import Breakage, Checked, Mended, Told

from cases.units import SAVED

STATE = "/var/lib/slurm/slurmctld"
JUST_SAVED = f"find {STATE} -type f -newermt '-8 seconds' | grep -q ."
STOP = "systemctl stop slurmctld"
"""Writes the state, and leaves it to the row."""


def damaged(file: str, size: str, zeros: str = "") -> str:
    """Cuts a file of the state, as a power cut may, beside a whole copy; slurmctld ends at each start."""
    return (
        f"{STOP} && cd {STATE} && cp -p {file} {file}.old && truncate --size={size} {file} && {zeros}"
        "{ systemctl start slurmctld || :; } && timeout 60 "
        "sh -c 'until [ $(systemctl show --property=NRestarts --value slurmctld) -ge 1 ]; do sleep 0.2; done'"
    )


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
        name="state-of-an-older-slurm",
        what="Debian 12 was upgraded to 13, whose Slurm cannot read the state of the earlier one",
        host="ctl",
        breaks=f"{STOP} && printf '\\046\\000' | dd of={STATE}/job_state bs=1 seek=21 conv=notrunc status=none",
        check=("was written by Slurm 22.05", "Slurm 23.02 or 23.11"),
        plan=("was written by Slurm 22.05, and the installed Slurm 24.11 reads that of 23.02 to 24.11",),
        deploy=Told(("-i, which discards all jobs", f"mv {STATE} {STATE}-22.05"), f"mv {STATE} {STATE}-22.05", 1),
        suites=("trixie",),
    ),
    Breakage(
        name="state-of-a-newer-slurm",
        what="slurmctld's state was written by a newer Slurm than the installed one",
        host="ctl",
        breaks=f"{STOP} && printf '\\052\\000' | dd of={STATE}/job_state bs=1 seek=21 conv=notrunc status=none",
        check=("was written by Slurm 24.11", "install Slurm 24.11"),
        plan=("was written by Slurm 24.11, and the installed Slurm 22.05 reads that of 20.11 to 22.05",),
        deploy=Told(("-i, which discards all jobs", f"mv {STATE} {STATE}-24.11"), f"mv {STATE} {STATE}-24.11", 1),
        suites=("bookworm",),
    ),
    Breakage(
        name="reservations-damaged",
        what="slurmctld's list of reservations is nothing but zeros; Slurm says to start it with `-i`",
        host="ctl",
        breaks="scontrol create reservation ReservationName=r StartTime=now+1hour Duration=9 Users=root Nodes=n1 && "
        f"{damaged('resv_state', '0', 'truncate --size=200 resv_state && ')}",
        check=(
            f"{STATE}/resv_state is damaged",
            "start slurmctld with -i",
            "lost is all reservations",
            "restore BACKUP",
        ),
        plan=("service:slurmctld: would change",),
        deploy=Told(
            (f"{STATE}/resv_state is damaged", "Do not follow", "cp -p resv_state.old resv_state"),
            f"cd {STATE} && mv resv_state resv_state.damaged && cp -p resv_state.old resv_state; rm resv_state.damaged",
            1,
        ),
    ),
    Breakage(
        name="usage-damaged",
        what="the use of accounts in slurmctld's state is damaged, and so is its copy",
        host="ctl",
        breaks=f"{damaged('assoc_usage', '$(($(stat -c %s assoc_usage) / 2))')}; cp -p assoc_usage assoc_usage.old",
        check=(f"{STATE}/assoc_usage is damaged", "without it", "fair share"),
        plan=("service:slurmctld: would change",),
        deploy=Told(
            (f"{STATE}/assoc_usage is damaged", "mv assoc_usage.old assoc_usage.old.damaged"),
            f"cd {STATE} && mv assoc_usage assoc_usage.damaged && mv assoc_usage.old assoc_usage.old.damaged; "
            "rm assoc_usage*.damaged",
            1,
        ),
        database=True,
    ),
    Breakage(
        name="memory-of-slurm-conf-above-the-hardware",
        what="somebody wrote more `RealMemory` than there is into the slurm.conf of all hosts",
        host="ctl",
        breaks="sed -i 's/RealMemory=[0-9]*/RealMemory=90000000/' /etc/slurm/slurm.conf && systemctl restart slurmctld",
        shows="test $(sinfo -h -N -o '%N %T' | sort -u | grep -c inval) = 2",
        check=("MiB of memory, but slurm.conf says 90000000",),
        plan=("RealMemory: 90000000 ->",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmdbd-by-another-name",
        what="somebody named slurmdbd's host differently in slurm.conf, and wrote defaults out",
        host="ctl",
        breaks="sed -i 's/^AccountingStorageHost=.*/AccountingStorageHost=localhost\\nJobRequeue=1/' "
        "/etc/slurm/slurm.conf && systemctl restart slurmctld",
        check=("slurm.conf",),
        plan=("comments or order: changed",),
        deploy=Mended(),
        database=True,
    ),
    Breakage(
        name="state-unreadable-at-a-restart",
        what="slurmctld crashed while it could not read its state, and systemd starts it again and again",
        host="ctl",
        breaks=f"{SAVED}chown root:root {STATE}/job_state && chmod 600 {STATE}/job_state && "
        "systemctl kill --signal=KILL --kill-whom=main slurmctld && "
        "until [ $(systemctl show --property=NRestarts --value slurmctld) -ge 2 ]; do sleep 0.2; done",
        check=(
            "cannot read and write",
            "job_state (of root, mode 600)",
            "because of this: daemons: slurmctld is running",
        ),
        plan=("job_state (of root, mode 0600)",),
        deploy=Mended(),
    ),
    Breakage(
        name="state-not-read",
        what="slurmctld was started by hand, without slurmfab's drop-in, while it could not read its state",
        host="ctl",
        breaks=f"{STOP} && chown root:root {STATE}/job_state && chmod 600 {STATE}/job_state && "
        "rm /etc/systemd/system/slurmctld.service.d/10-slurmfab.conf && systemctl daemon-reload && "
        "systemctl start slurmctld && sleep 1",
        check=("slurmctld started without the jobs that it knew before", "Could not open job state file", "Permission"),
        deploy=Checked("systemctl restart slurmctld"),
    ),
    Breakage(
        name="state-not-saved",
        what="slurmctld could not save its state once, and runs on",
        host="ctl",
        breaks=(
            # Where something has just happened, slurmctld saves again at once.
            f"while {JUST_SAVED}; do sleep 0.5; done; "
            f"mount --bind {STATE} {STATE} && mount -o remount,bind,ro {STATE} && "
            'scontrol update NodeName=n1 Weight=2 && while ! grep -q "Can\'t save state" /var/log/slurm/slurmctld.log; '
            f"do sleep 0.2; done; umount {STATE}"
        ),
        check=("slurmctld goes on with all its jobs", "Can't save state", "saves again with the next change"),
        deploy=Checked(repair="scontrol update NodeName=n1 Weight=1"),
    ),
)
