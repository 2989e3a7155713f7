"""What shells complete: the options and words of tasks, and what each takes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from slurmfab.cli.completion import takes
from slurmfab.cli.completion.answering import SHELLS
from slurmfab.cli.completion.takes import Entry, Option, Table, Takes
from slurmfab.cli.tasks import TASKS
from slurmfab.cli.tasks.command import Command
from slurmfab.cli.tasks.help import summary
from slurmfab.cli.tasks.rehearse import REFUSED as REHEARSED
from slurmfab.commands.checks.own import ALL as OWN_CHECKS
from slurmfab.commands.checks.runner import ORDER as CHECK_GROUPS
from slurmfab.commands.drill.drills import DRILLS
from slurmfab.commands.quickcheck.running import CHECKS as QUICKCHECKS
from slurmfab.core.impact.disruptive_changes import KNOWN as DISRUPTIONS
from slurmfab.core.plan.plan import PARTS, PHASES

TEXT = Takes()
FILE, DIRECTORY = Takes(takes.FILE), Takes(takes.DIRECTORY)
HOSTS, NODES = Takes(takes.HOSTS, many=True), Takes(takes.NODES, many=True)
NEW_HOSTS = Takes(takes.NEW_HOSTS, many=True)


def one_of(*choices: str) -> Takes:
    """One of some words."""
    return Takes(takes.CHOICES, choices=choices)


def some_of(*choices: str) -> Takes:
    """Some words, with commas between them."""
    return Takes(takes.CHOICES, many=True, choices=choices)


PHASE_WORDS = some_of(*(phase.word for phase in PHASES), *PARTS)

EVERYWHERE: Mapping[str, Takes] = {
    "account": Takes(takes.ACCOUNTS, many=True),
    "adopt": one_of("least", "usual"),
    "address": TEXT,
    "allow": one_of(*DISRUPTIONS),
    "around": TEXT,
    "at_once": TEXT,
    "become": one_of("sudo", "none"),
    "cluster": FILE,
    "command": TEXT,
    "comment": TEXT,
    "controller": Takes(takes.NEW_HOSTS),
    "csv": FILE,
    "destination": TEXT,
    "exclude": HOSTS,
    "file": FILE,
    "fingerprint": TEXT,
    "from_": Takes(takes.HOSTS),
    "gateway": Takes(takes.NEW_HOSTS),
    "gpu_nodes": TEXT,
    "group": TEXT,
    "homes": TEXT,
    "host": Takes(takes.HOSTS),
    "hosts": HOSTS,
    "html": FILE,
    "idle_minutes": TEXT,
    "image": TEXT,
    "interface": TEXT,
    "json": FILE,
    "junit": FILE,
    "key": FILE,
    "kill": TEXT,
    "like": Takes(takes.NODES),
    "login": NEW_HOSTS,
    "mode": TEXT,
    "name": TEXT,
    "nodes": TEXT,
    "on": HOSTS,
    "only": TEXT,
    "output": FILE,
    "owner": TEXT,
    "partition": Takes(takes.PARTITIONS, many=True),
    "plan": FILE,
    "port": TEXT,
    "power_cut": Takes(takes.HOSTS),
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
    ("check-cluster", "only"): some_of(*CHECK_GROUPS, OWN_CHECKS),
    ("check-gpus", "hosts"): NODES,
    ("deploy", "only"): PHASE_WORDS,
    ("drain", "hosts"): NODES,
    ("drill", "drills"): some_of(*DRILLS),
    ("drill", "node"): Takes(takes.NODES),
    ("explain", "target"): Takes(takes.HOSTS),
    ("import", "hosts"): NEW_HOSTS,
    ("lab-down", "name"): Takes(takes.LABS),
    ("lab-off", "name"): Takes(takes.LABS),
    ("lab-on", "name"): Takes(takes.LABS),
    **{
        ("lab-up", name): TEXT
        for name in ("down", "dual", "gpus", "hanging", "ipv6", "no_python", "offline", "unified")
    },
    ("lab-up", "packages"): one_of("debian", "smd", "el-smd", "el", "el-openhpc"),
    ("lab-up", "shared"): TEXT,
    ("lab-up", "suite"): one_of("bookworm", "trixie", "sid", "noble", "resolute"),
    ("lab-up", "unified"): TEXT,
    ("logs", "target"): HOSTS,
    ("monitoring-files", "output"): DIRECTORY,
    ("plan", "only"): PHASE_WORDS,
    ("quickcheck", "hosts"): NODES,
    ("quickcheck", "only"): some_of(*QUICKCHECKS),
    ("quickcheck", "user"): Takes(takes.USERS),
    ("reboot", "hosts"): NODES,
    ("rehearse", "command"): Takes(takes.TASKS, choices=tuple(REHEARSED)),
    ("rehearse", "identity"): FILE,
    ("remove-node", "hosts"): NODES,
    ("remove-user", "name"): Takes(takes.USERS),
    ("replace-node", "host"): Takes(takes.NODES),
    ("restore", "database"): FILE,
    ("restore", "identity"): FILE,
    ("restore", "signed_by"): FILE,
    ("resume", "hosts"): Takes(takes.OUT_OF_SERVICE, many=True),
    ("status", "user"): Takes(takes.USERS),
    ("upgrade", "back"): FILE,
    ("upgrade", "identity"): FILE,
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


def entry(task: Command) -> Entry:
    """A task, as shells complete it; a word that has to be given needs no flag."""
    options = {
        one.flags[0]: Option(
            one.help, taken(task.name, one.name) if one.takes_value else None, isinstance(one.default, list)
        )
        for one in task.parameters
        if not one.is_required
    }
    return Entry(summary(task), tuple(taken(task.name, one.name) for one in task.words), options)


def table() -> Table:
    """All tasks, as shells complete them."""
    return {name: entry(task) for name, task in TASKS.items()}


def table_text() -> str:
    """The table as JSON: an option a line, so that changes of two branches seldom meet."""
    lines = []
    for name, made in table().items():
        options = ",\n".join(f"    {json.dumps(flag)}: {json.dumps(one)}" for flag, one in made.options.items())
        lines.append(f"{json.dumps(name)}: [{json.dumps(made.help)}, {json.dumps(made.words)}, {{\n{options}\n}}]")
    return "{\n" + ",\n".join(lines) + "\n}\n"
