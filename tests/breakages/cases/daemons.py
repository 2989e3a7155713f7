"""Daemons that are down, or do not answer."""

from __future__ import annotations

from breakage import DAEMONS, Breakage, Checked, Mended, Setting, Told

TABLES = "table=$(mariadb -N slurm_acct_db -e 'show tables' | grep _job_table$); echo $table >/root/table;"
"""Notes the name of the table of jobs."""

SQUATS = 'import signal, socket; kept = socket.create_server(("", 6818)); signal.pause()'
SQUATTED = "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 6818))'; do sleep 0.1; done"

ROWS = (
    Breakage(
        name="slurmd-stopped",
        what="slurmd was stopped",
        breaks="systemctl stop slurmd",
        check=("slurmd",),
        plan=("slurmd",),
        deploy=Mended(),
    ),
    Breakage(
        name="munged-stopped",
        what="munged was stopped",
        breaks="systemctl stop munge",
        check=("munge",),
        plan=("munge",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmctld-stopped",
        what="slurmctld was stopped",
        host="ctl",
        breaks="systemctl stop slurmctld",
        check=("slurmctld",),
        plan=("slurmctld",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmdbd-stopped",
        what="slurmdbd was stopped",
        host="ctl",
        breaks="systemctl stop slurmdbd",
        check=("slurmdbd",),
        plan=("slurmdbd",),
        deploy=Mended(),
        database=True,
    ),
    Setting(
        name="slurmctld-does-not-start",
        what="slurm_conf names a plugin that slurmctld does not find when it starts",
        text="slurm_conf: {SchedulerType: sched/nonsense}\n",
        plan=("sched/nonsense",),
        plan_code=4,
        deploy=("fatal: ", "sched", "Slurm's earlier files are back on ctl,n[1-2], and slurmctld runs with them."),
        deploy_code=1,
    ),
    Setting(
        name="slurmd-does-not-start",
        what="slurm_conf names a plugin that slurmd does not find when it starts",
        text="slurm_conf: {TaskPlugin: task/nonsense}\n",
        plan=("task/nonsense",),
        plan_code=4,
        deploy=("task/nonsense", "Slurm's earlier files are back on ctl,n[1-2], and slurmctld runs with them."),
        deploy_code=1,
    ),
    Breakage(
        name="slurmd-port-taken",
        what="slurmd was stopped, and another program listens on its port",
        breaks=f"systemctl stop slurmd; systemd-run --quiet --unit=squatter python3 -c '{SQUATS}'; {SQUATTED}",
        check=("slurmd.service is inactive",),
        plan=("service:slurmd",),
        deploy=Told(
            words=("n1", "Unable to bind listen port (6818): Address already in use", "python3 (PID", "has port 6818"),
            repair="systemctl stop squatter",
        ),
    ),
    Breakage(
        name="slurm-conf-refused",
        what="somebody changed how jobs are scheduled in slurm.conf, mistyped a key, and restarted slurmctld",
        host="ctl",
        breaks="sed -i 's,^SelectType=.*,SelectType=select/linear,; s,^SelectTypeParameters=.*,SelectTypeParam=x,' "
        "/etc/slurm/slurm.conf; systemctl restart slurmctld || true",
        shows="! systemctl is-active slurmctld",
        check=("slurmctld is running",),
        plan=("slurm.conf",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmctld-ended-at-its-start",
        what="somebody added a plugin to slurm.conf that slurmctld does not find, and restarted it",
        host="ctl",
        breaks=(
            "sed -i 's,^SchedulerType=.*,SchedulerType=sched/nonsense,' /etc/slurm/slurm.conf; "
            "systemctl restart slurmctld; until systemctl is-failed slurmctld; do sleep 0.1; done"
        ),
        check=("slurmctld.service is failed", "fatal: ", "sched"),
        plan=("sched/nonsense", "service:slurmctld"),
        deploy=Mended(),
    ),
    Breakage(
        name="munged-refuses-its-key",
        what="the munge key can be read by all users, and munged ended at its next start",
        breaks="chmod 0644 /etc/munge/munge.key; systemctl restart munge || true",
        check=("munge.key has the mode 0644 instead of 0400", "because of this: daemons: munged is running (n1)"),
        plan=("munge.key", "service:munge"),
        deploy=Mended(),
    ),
    *(
        Breakage(
            name=f"{daemon}-frozen",
            what=f"{daemon} was stopped by a signal (SIGSTOP), and systemd calls it active",
            host=host,
            breaks=f"kill -STOP $(systemctl show -p MainPID --value {unit})",
            check=(f"{unit}.service is active and does not answer", "SIGSTOP"),
            plan=(f"service:{unit}", "answers: no -> yes"),
            deploy=Mended(),
            database=daemon == "slurmdbd",
        )
        for daemon, unit, host in DAEMONS
    ),
    Breakage(
        name="slurmd-masked",
        what="slurmd is masked",
        breaks="systemctl mask --now slurmd",
        check=("slurmd.service is masked",),
        plan=("enabled: masked -> yes",),
        deploy=Mended(),
    ),
    Breakage(
        name="munge-masked-until-boot",
        what="munge is masked until the next boot, and still runs",
        breaks="systemctl mask --runtime munge",
        check=("munge will not start at the next boot",),
        plan=("enabled: masked -> yes",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmd-and-its-job-killed",
        what="slurmd was stopped, and all processes of a job were killed",
        # slurmctld takes the batch script of a job for missing 20 s after its start at the earliest.
        breaks=(
            "job=$(runuser -u ada -- sbatch --parsable --no-requeue --chdir=/tmp --output=/dev/null -w n1 "
            "--time=5 --wrap 'exec sleep 250'); "
            "until squeue --noheader --states=RUNNING --jobs=$job | grep -q n1; do sleep 0.2; done; sleep 25; "
            "systemctl stop slurmd; for process in /proc/[0-9]*; do "
            "case $(tr '\\0' ' ' <$process/cmdline 2>/dev/null) in 'slurmstepd: '*|'sleep 250 ') "
            "kill -9 ${process#/proc/};; esac; done; true"
        ),
        check=("slurmd.service is inactive",),
        plan=("service:slurmd",),
        deploy=Mended(("Lost before this run, since its processes were gone before the first change: job",)),
    ),
    Breakage(
        name="job-table-gone",
        what="somebody dropped the table of jobs from the accounting database",
        host="ctl",
        breaks=f'{TABLES} mariadb slurm_acct_db -e "rename table $table to kept"',
        check=("sacct has no record of job", "slurmdbd's own log says: error:"),
        deploy=Checked(
            'mariadb slurm_acct_db -e "rename table kept to $(cat /root/table)"; '
            "until sdiag | grep -Eq 'DBD Agent queue size: *0'; do sleep 1; done"
        ),
        database=True,
    ),
)
