"""Daemons that died, or do not start at boot."""

from __future__ import annotations

from breakage import Breakage, Mended, Told

OFF = "will not start at the next boot"

SITE = "/etc/systemd/system/slurmd.service.d/site.conf"
REMOVE = f"rm {SITE}; systemctl daemon-reload"


def with_drop_in(setting: str) -> str:
    """Puts a drop-in of the site's there, and starts slurmd with it."""
    return (
        f"mkdir -p {SITE.rpartition('/')[0]}; printf '[Service]\\n{setting}\\n' > {SITE}; systemctl daemon-reload; "
        "systemctl restart slurmd; until systemctl is-failed slurmd; do sleep 0.1; done"
    )


ROWS = (
    Breakage(
        name="slurmd-with-few-files",
        what="a drop-in of the site lets slurmd open five files",
        breaks=with_drop_in("LimitNOFILE=5"),
        check=("fatal: ", f"changed by {SITE} (LimitNOFILE=5)"),
        plan=("service:slurmd",),
        deploy=Told(("fatal: ", f"changed by {SITE} (LimitNOFILE=5)"), repair=REMOVE),
    ),
    Breakage(
        name="slurmd-as-another-user",
        what="a drop-in of the site starts slurmd as nobody, who cannot open its log",
        breaks=with_drop_in("User=nobody"),
        check=("Unable to open logfile", "Permission denied", f"changed by {SITE} (User=nobody)"),
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
    Breakage(
        name="slurmd-killed",
        what="slurmd was killed, as by the kernel when memory is short",
        breaks="systemctl kill --signal=KILL --kill-whom=main slurmd",
        check=("slurmd.service is failed",),
        plan=("service:slurmd", "running: failed -> yes"),
        deploy=Mended(),
    ),
    Breakage(
        name="slurmd-crashes-often",
        what="systemd has given up slurmd, which was started too often",
        breaks="for i in 1 2 3 4 5 6; do systemctl restart slurmd 2>&1 || :; done; systemctl stop slurmd",
        check=("slurmd.service is",),
        plan=("service:slurmd",),
        deploy=Mended(),
    ),
)
