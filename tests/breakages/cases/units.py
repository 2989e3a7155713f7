"""Daemons that died, or do not start at boot."""

from __future__ import annotations

from breakage import Breakage, Mended

OFF = "will not start at the next boot"

ROWS = (
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
    Breakage(
        name="logind-given-up",
        what="systemd has given up systemd-logind, as when a file server hangs",
        breaks="until systemctl is-failed --quiet systemd-logind; do "
        "systemctl kill --signal=KILL systemd-logind 2>&1; sleep 0.2; done",
        plan=("revived-unit:systemd-logind", "failed: yes -> no"),
        deploy=Mended(),
    ),
)
