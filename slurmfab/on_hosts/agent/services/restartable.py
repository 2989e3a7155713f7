"""Daemons of which it is known that a restart harms nobody, by the names of their units."""

from __future__ import annotations

IN_ORDER = ("munge", "mariadb", "slurmdbd", "slurmctld", "sackd", "slurmd", "slurmrestd")
"""Slurm's daemons and what they need, in the order of their restarts."""

OTHERS = frozenset({
    "ssh", "sshd", "cron", "atd", "rsyslog", "chrony", "ntpsec", "systemd-timesyncd", "systemd-journald",
    "unattended-upgrades", "prometheus", "prometheus-alertmanager", "prometheus-node-exporter", "smartmontools",
    "mdmonitor", "postfix", "exim4", "nullmailer", "nscd", "nslcd", "sssd", "irqbalance", "polkit", "packagekit",
})  # fmt: skip
"""Other daemons that lose nothing. Not here: D-Bus, logind, network daemons, NFS, container engines, displays."""


def is_restartable(unit: str) -> bool:
    """Whether a daemon is restarted when it uses replaced files."""
    return unit in IN_ORDER or unit in OTHERS
