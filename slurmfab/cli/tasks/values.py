"""What the options and words of tasks take, for shells that complete them."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.cli.completion import takes
from slurmfab.cli.completion.answering import SHELLS
from slurmfab.cli.completion.takes import Takes

TEXT = Takes()
FILE, DIRECTORY = Takes(takes.FILE), Takes(takes.DIRECTORY)
HOSTS, NODES = Takes(takes.HOSTS, many=True), Takes(takes.NODES, many=True)
NEW_HOSTS = Takes(takes.NEW_HOSTS, many=True)

DISRUPTIONS = Takes(takes.DISRUPTIONS)
CHECK_GROUPS, QUICKCHECKS = Takes(takes.CHECK_GROUPS, many=True), Takes(takes.QUICKCHECKS, many=True)


def one_of(*choices: str) -> Takes:
    """One of some words."""
    return Takes(takes.CHOICES, choices=choices)


def some_of(*choices: str) -> Takes:
    """Some words, with commas between them."""
    return Takes(takes.CHOICES, many=True, choices=choices)


EVERYWHERE: Mapping[str, Takes] = {
    "account": Takes(takes.ACCOUNTS, many=True),
    "adopt": one_of("least", "usual"),
    "address": TEXT,
    "allow": DISRUPTIONS,
    "around": TEXT,
    "at_once": TEXT,
    "become": one_of("sudo", "none"),
    "cluster": FILE,
    "command": TEXT,
    "comment": TEXT,
    "controller": Takes(takes.NEW_HOSTS),
    "csv": FILE,
    "file": FILE,
    "fingerprint": TEXT,
    "from_": Takes(takes.HOSTS),
    "gateway": Takes(takes.NEW_HOSTS),
    "gpu_nodes": TEXT,
    "homes": TEXT,
    "host": Takes(takes.HOSTS),
    "hosts": HOSTS,
    "html": FILE,
    "idle_minutes": TEXT,
    "image": TEXT,
    "json": FILE,
    "junit": FILE,
    "key": FILE,
    "like": Takes(takes.NODES),
    "login": NEW_HOSTS,
    "name": TEXT,
    "nodes": TEXT,
    "only": TEXT,
    "output": FILE,
    "partition": Takes(takes.PARTITIONS, many=True),
    "plan": FILE,
    "port": TEXT,
    "reason": TEXT,
    "reboot_timeout": TEXT,
    "repeat": TEXT,
    "run": Takes(takes.RUNS),
    "save": FILE,
    "shell": one_of(*SHELLS),
    "since": TEXT,
    "slurm": TEXT,
    "task": Takes(takes.TASKS),
    "timeout": TEXT,
    "to": FILE,
    "uid": TEXT,
    "until": TEXT,
    "user": TEXT,
    "users": TEXT,
    "wait": TEXT,
}
"""What a parameter takes in every task that has it, if `IN_TASK` has nothing else."""

IN_TASK: Mapping[tuple[str, str], Takes] = {
    ("accept", "hosts"): NODES,
    ("accept", "logs"): DIRECTORY,
    ("accept", "only"): Takes(takes.ACCEPTANCE_JOBS, many=True),
    ("accept", "user"): Takes(takes.USERS),
    ("add-node", "hosts"): NEW_HOSTS,
    ("add-user", "groups"): TEXT,
    ("check-cluster", "only"): CHECK_GROUPS,
    ("check-gpus", "hosts"): NODES,
    ("drain", "hosts"): NODES,
    ("import", "hosts"): NEW_HOSTS,
    ("lab-down", "name"): Takes(takes.LABS),
    ("lab-off", "name"): Takes(takes.LABS),
    ("lab-on", "name"): Takes(takes.LABS),
    **{
        ("lab-up", name): TEXT
        for name in ("down", "dual", "gpus", "hanging", "ipv6", "no_python", "offline", "unified")
    },
    ("lab-up", "packages"): one_of("debian", "smd"),
    ("lab-up", "shared"): TEXT,
    ("lab-up", "suite"): one_of("bookworm", "trixie", "sid", "noble", "resolute"),
    ("lab-up", "unified"): TEXT,
    ("logs", "target"): HOSTS,
    ("monitoring-files", "output"): DIRECTORY,
    ("quickcheck", "hosts"): NODES,
    ("quickcheck", "only"): QUICKCHECKS,
    ("quickcheck", "user"): Takes(takes.USERS),
    ("reboot", "hosts"): NODES,
    ("remove-node", "hosts"): NODES,
    ("remove-user", "name"): Takes(takes.USERS),
    ("replace-node", "host"): Takes(takes.NODES),
    ("restore", "database"): FILE,
    ("restore", "identity"): FILE,
    ("restore", "signed_by"): FILE,
    ("resume", "hosts"): Takes(takes.OUT_OF_SERVICE, many=True),
    ("status", "user"): Takes(takes.USERS),
    ("upgrade", "back"): FILE,
    ("upgrade", "suite"): TEXT,
    ("upgrade", "to"): TEXT,
    ("user-guide", "output"): DIRECTORY,
    ("usage", "by"): some_of("user", "account", "partition", "gpu"),
}
"""What a parameter takes in one task."""


def taken(task: str, parameter: str) -> Takes:
    """What a parameter of a task takes.

    Args:
        task: as it is typed.
        parameter: as it is in Python.

    Raises:
        KeyError: no table above says it.
    """
    return IN_TASK.get((task, parameter)) or EVERYWHERE[parameter]


def words_elsewhere(what: str) -> list[str]:
    """The words of a kind that other modules know.

    Args:
        what: one of `takes.ELSEWHERE`.
    """
    if what == takes.DISRUPTIONS:
        from slurmfab.core.impact.disruptive_changes import KNOWN

        return list(KNOWN)
    if what == takes.CHECK_GROUPS:
        from slurmfab.commands.checks.runner import ORDER

        return list(ORDER)
    from slurmfab.commands.quickcheck.running import CHECKS

    return list(CHECKS)
