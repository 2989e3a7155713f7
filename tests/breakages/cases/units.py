"""Daemons that died, or do not start at boot."""

from __future__ import annotations

from breakage import DAEMONS, Breakage, Checked, Mended, Oddity, Told

OFF = "will not start at the next boot"

SITES = "/etc/systemd/system/slurmd.service.d/site.conf"
RELOADED = "systemctl daemon-reload; systemctl restart slurmd"
KILLED = (
    "systemctl kill --signal=KILL --kill-whom=main {0}; "
    "until [ $(systemctl show --property=NRestarts --value {0}) = 1 ]; do sleep 0.1; done; "
    "until systemctl --quiet is-active {0}; do sleep 0.1; done"
)
"""Kills a daemon, and waits until it runs again."""
SAVED = (
    "touch /run/now; scancel $(runuser -u slurm -- sbatch --parsable --hold --chdir=/tmp -o /dev/null --wrap true); "
    "until [ /var/lib/slurm/slurmctld/job_state -nt /run/now ]; do sleep 0.1; done; "
)
"""Waits until slurmctld has saved its jobs; one that is killed before takes some that have ended for running ones."""
OLD_UNIT = "/etc/systemd/system/slurmd.service"
REMOVE = f"rm {SITES}; systemctl daemon-reload"


def with_drop_in(setting: str) -> str:
    """Puts a drop-in of the site's there, and starts slurmd with it."""
    return (
        f"mkdir -p {SITES.rpartition('/')[0]}; printf '[Service]\\n{setting}\\n' > {SITES}; systemctl daemon-reload; "
        "systemctl restart slurmd; until systemctl is-failed slurmd; do sleep 0.1; done"
    )


def place(daemon: str) -> str:
    """A drop-in of the site's."""
    return f"/etc/systemd/system/{daemon}.service.d/site.conf"


def with_limit(daemon: str, setting: str) -> str:
    """Puts a drop-in of the site's there, and starts a daemon with it, which runs; its files are in /opt, too."""
    return (
        f"mkdir -p /opt/slurm; cp /etc/slurm/*.conf /opt/slurm; chown slurm /opt/slurm/*; "
        f"printf '[Service]\n{setting}\n' >{place(daemon)}; systemctl daemon-reload; systemctl restart {daemon}"
    )


ROWS = (
    Breakage(
        name="slurmd-with-few-files",
        what="a drop-in of the site lets slurmd open five files",
        breaks=with_drop_in("LimitNOFILE=5"),
        check=("fatal: ", f"changed by {SITES} (LimitNOFILE=5)"),
        plan=("service:slurmd",),
        deploy=Told(("fatal: ", f"changed by {SITES} (LimitNOFILE=5)"), repair=REMOVE),
    ),
    Breakage(
        name="slurmd-as-another-user",
        what="a drop-in of the site starts slurmd as nobody, who cannot open its log",
        breaks=with_drop_in("User=nobody"),
        check=("Unable to open logfile", "Permission denied", f"changed by {SITES} (User=nobody)"),
        plan=("service:slurmd",),
        deploy=Told(("Unable to open logfile", "Permission denied", "(User=nobody)"), repair=REMOVE),
    ),
    Breakage(
        name="slurmd-disabled",
        what="slurmd is disabled, so that it is gone after a reboot",
        breaks="systemctl disable --quiet slurmd",
        check=(f"slurmd {OFF}",),
        plan=("service:slurmd", "enabled: no -> yes"),
        deploy=Mended(),
    ),
    Breakage(
        name="munged-and-slurmctld-disabled",
        what="munged and slurmctld are disabled on the controller",
        host="ctl",
        breaks="systemctl disable --quiet munge slurmctld",
        check=(f"munge and slurmctld {OFF}",),
        plan=("service:munge", "service:slurmctld", "enabled: no -> yes"),
        deploy=Mended(),
    ),
    *(
        Breakage(
            name=f"{daemon}-killed",
            what=f"{daemon} was killed, as by the kernel when memory is short, and systemd started it again",
            host=host,
            breaks=(SAVED if daemon == "slurmctld" else "") + KILLED.format(unit),
            check=(f"systemd started it again: {unit} once (code=killed, status=9/KILL)",),
            plan=(f"service:{unit}: would change (crashed daemon)", "ended by itself: 1 time -> no"),
            deploy=Mended(),
            database=daemon == "slurmdbd",
        )
        for daemon, unit, host in DAEMONS
    ),
    Breakage(
        name="slurmd-crashes-often",
        what="systemd has given up slurmd, which was started too often",
        breaks="for i in $(seq 41); do systemctl restart slurmd 2>&1 || :; done; systemctl stop slurmd",
        check=("slurmd.service is",),
        plan=("service:slurmd",),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmd-never-restarted",
        what="somebody removed the drop-in by which systemd starts slurmd again",
        breaks="rm /etc/systemd/system/slurmd.service.d/10-slurmfab.conf; systemctl daemon-reload",
        plan=("owned-files:restarts", "10-slurmfab.conf"),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmd-unit-of-another-installation",
        what="a unit that another installation of Slurm has left hides the package's",
        breaks=f"printf '[Service]\\nExecStart=/opt/slurm/sbin/slurmd -D\\n' >{OLD_UNIT}; {RELOADED} || :",
        check=("slurmd.service is ", f"its unit is {OLD_UNIT}", f"mv {OLD_UNIT} /root/"),
        plan=("service:slurmd",),
        deploy=Told(
            (f"its unit is {OLD_UNIT}, which hides the package's",), f"mv {OLD_UNIT} /root/ && systemctl daemon-reload"
        ),
    ),
    Breakage(
        name="slurmd-of-another-place",
        what="a drop-in of the site runs another slurmd, with another slurm.conf",
        breaks=(
            "mkdir -p /opt/slurm; cp -L /usr/sbin/slurmd /opt/slurm/slurmd; cp /etc/slurm/*.conf /opt/slurm; "
            "line=$(systemctl cat slurmd | sed -n 's,^ExecStart=/usr/sbin/,ExecStart=/opt/slurm/,p'); "
            f"printf '[Service]\\nExecStart=\\n%s\\n' \"$line -f /opt/slurm/slurm.conf\" >{SITES}; {RELOADED}"
        ),
        check=("slurmd runs /opt/slurm/slurmd and not /usr/sbin/slurmd", "reads /opt/slurm/slurm.conf", SITES),
        deploy=Checked(f"rm -r {SITES} /opt/slurm; {RELOADED}"),
    ),
    Breakage(
        name="slurmd-may-open-few-files",
        what="a drop-in of the site limits the files that slurmd may open",
        breaks=f"printf '[Service]\\nLimitNOFILE=1024\\n' >{SITES}; {RELOADED}",
        check=("slurmd may open 1024 files, where its package's unit allows 131072", SITES),
        deploy=Checked(f"rm {SITES}; {RELOADED}"),
    ),
    *(
        Breakage(
            name=f"{daemon}-{name}",
            what=f"a drop-in of the site {what}",
            breaks=with_limit(daemon, setting),
            host=host,
            check=(says.format(daemon), f"{place(daemon)}"),
            deploy=Checked(f"rm {place(daemon)}; systemctl daemon-reload; systemctl restart {daemon}"),
        )
        for daemon, host in (("slurmd", "n1"), ("slurmctld", "ctl"))
        for name, what, setting, says in (
            (
                "may-use-little-memory",
                f"limits the memory of {daemon}",
                "MemoryMax=512M",
                "{} may use 536870912 bytes of memory (MemoryMax)",
            ),
            (
                "may-have-few-threads",
                f"limits the threads of {daemon}",
                "TasksMax=200",
                "{} may have 200 threads, where its package's unit allows any number",
            ),
            (
                "by-a-variable",
                f"sets SLURM_CONF for {daemon}",
                "Environment=SLURM_CONF=/opt/slurm/slurm.conf",
                "{} has SLURM_CONF=/opt/slurm/slurm.conf in its environment",
            ),
        )
    ),
    Oddity(
        name="drop-in-of-the-site",
        what="a drop-in of the site for slurmd that changes nothing that Slurm needs",
        does=f"printf '[Service]\\nNice=-1\\n' >{SITES}; {RELOADED}",
        undoes=f"rm {SITES}; {RELOADED}",
    ),
    Breakage(
        name="logind-given-up",
        what="systemd has given up systemd-logind, as when a file server hangs",
        breaks="until systemctl is-failed --quiet systemd-logind; do "
        "systemctl kill --signal=KILL systemd-logind 2>&1; sleep 0.2; done",
        plan=("revived-unit:systemd-logind", "failed: yes -> no"),
        deploy=Mended(),
    ),
)
