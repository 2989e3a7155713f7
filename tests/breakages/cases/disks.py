"""File systems that are full, and directories that are closed, gone or another user's."""

from __future__ import annotations

from breakage import Breakage, Mended, Told

LOGS, SLURMD_LOGS = "/var/log/slurm", "/var/log/slurmd"
SPOOL = "/var/spool/slurmd"
STATE = "/var/lib/slurm/slurmctld"


def full(directory: str, limit: str = "size=2m") -> str:
    """Moves a directory to a small file system, and fills that."""
    return (
        f"mkdir /srv/small && mount -t tmpfs -o {limit} tmpfs /srv/small && cp -a {directory}/. /srv/small && "
        f"mount --bind /srv/small {directory} && umount /srv/small && rmdir /srv/small; "
        f"cd {directory}; for file in $(seq 50); do touch filler.$file || break; done 2>/dev/null; "
        f"cat /dev/zero 2>/dev/null >filler.1; chown --reference=. filler.*"
    )


def freed(directory: str) -> str:
    """Removes what fills it, and moves the directory back."""
    return (
        f"rm {directory}/filler.*; cp -a {directory} /srv/kept && umount --lazy {directory} && "
        f"cp -a /srv/kept/. {directory} && rm -r /srv/kept"
    )


ROWS = (
    Breakage(
        name="slurm-directory-closed",
        what="`/etc/slurm` has the mode 0700",
        breaks="chmod 0700 /etc/slurm",
        check=("an ordinary user can read slurm.conf", "Permission denied (/etc/slurm has the mode drwx------)"),
        plan=("directory:/etc/slurm",),
        deploy=Mended(),
    ),
    Breakage(
        name="munge-socket-closed",
        what="`/run/munge` has the mode 0700",
        breaks="chmod 0700 /run/munge",
        check=("an ordinary user gets a credential of munge", "/run/munge has the mode drwx------"),
        plan=("munge",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurm-conf-closed",
        what="`slurm.conf` has the mode 0600",
        breaks="chmod 0600 /etc/slurm/slurm.conf",
        check=("(/etc/slurm/slurm.conf has the mode -rw-------)",),
        plan=("slurm.conf",),
        deploy=Mended(),
    ),
    Breakage(
        name="logs-full",
        what="the file system of slurmd's log is full",
        breaks=full(SLURMD_LOGS),
        check=(f"{SLURMD_LOGS} is full (0 KiB left): slurmd writes its log there", "du -xah"),
        plan=(f"the file system of {SLURMD_LOGS} (",),
        deploy=Told((f"the file system of {SLURMD_LOGS} (", "is full", "du -xah"), repair=freed(SLURMD_LOGS)),
    ),
    Breakage(
        name="logs-without-inodes",
        what="the file system of slurmd's log has no inodes",
        breaks=full(SLURMD_LOGS, "size=64m,nr_inodes=40"),
        check=(f"{SLURMD_LOGS} is full (no inodes left)",),
        plan=(f"the file system of {SLURMD_LOGS} (",),
        deploy=Told((f"the file system of {SLURMD_LOGS} (", "is full", "du -xah"), repair=freed(SLURMD_LOGS)),
    ),
    Breakage(
        name="spool-full",
        what="SlurmdSpoolDir is full",
        breaks=full(SPOOL),
        check=(f"{SPOOL} is full (0 KiB left): slurmd writes each job's script and credential there",),
        plan=(f"the file system of {SPOOL} (",),
        deploy=Told((f"the file system of {SPOOL} (", "is full", "du -xah"), repair=freed(SPOOL)),
    ),
    Breakage(
        name="state-full",
        what="StateSaveLocation is full",
        host="ctl",
        breaks=full(STATE),
        check=(f"{STATE} is full (0 KiB left): slurmctld writes its jobs and nodes there",),
        plan=(f"the file system of {STATE} (",),
        deploy=Told((f"the file system of {STATE} (", "is full"), repair=freed(STATE), exit_code=1),
    ),
    Breakage(
        name="run-full",
        what="`/run` is full",
        breaks="mount -o remount,size=8m /run; cat /dev/zero >/run/filler 2>/dev/null; true",
        check=(
            "/run is full (",
            "systemd, munged and slurmd keep sockets and pids there",
        ),
        plan=("the file system of /run (",),
        deploy=Told(("the file system of /run (", "is full"), repair="rm /run/filler; mount -o remount,size=20% /run"),
    ),
    Breakage(
        name="log-directory-gone",
        what="`/var/log/slurm` was removed",
        host="ctl",
        breaks=f"rm -r {LOGS}",
        check=(f"there is no {LOGS}",),
        plan=(f"directory:{LOGS}",),
        deploy=Mended(),
    ),
)
