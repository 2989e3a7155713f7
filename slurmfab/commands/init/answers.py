"""The questions of `fab init`, each of which is also a flag, and their answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Answers:
    """What a first cluster file says."""

    name: str = "cluster"
    controller: str = ""
    nodes: str = ""  # hostlist of the compute nodes
    login: str = ""  # hostlist of the login hosts; empty for none
    user: str = ""  # login name for SSH; empty for that of ~/.ssh/config
    accounting: bool = False  # whether the controller has slurmdbd and MariaDB
    gpu_nodes: str = ""  # hostlist of the compute nodes that get a partition `gpu`; empty for none
    homes: str = ""  # where homes are on a file server, as SERVER:PATH; empty for none
    users: str = ""  # names of users, with commas; empty for none

    def with_answer(self, field: str, value: str | bool) -> Answers:
        """The same with another answer."""
        values: dict[str, Any] = {field: value}
        return replace(self, **values)


@dataclass(frozen=True)
class Question:
    """A question, asked on a terminal unless its flag was given."""

    field: str  # of `Answers`
    text: str
    default: str = ""  # what an empty answer means, shown in brackets
    is_required: bool = False

    @property
    def flag(self) -> str:
        """The flag that answers it."""
        return f"--{self.field.replace('_', '-')}"


NONE = "none"  # what an empty answer means where nothing is wanted

QUESTIONS = (
    Question("name", "Name of the cluster", "cluster"),
    Question("controller", "Controller, the host of slurmctld", is_required=True),
    Question("nodes", "Compute nodes, as in n[1-4]", is_required=True),
    Question("login", "Login hosts, with Slurm's commands alone", NONE),
    Question("user", "SSH login name, which becomes root by sudo", "as in ~/.ssh/config"),
    Question("accounting", "Accounting: slurmdbd and MariaDB on the controller", "y/N"),
    Question("gpu_nodes", "Compute nodes with GPUs, for a partition of their own", NONE),
    Question("homes", "Homes on a file server, as in nas:/export/home", NONE),
    Question("users", "Users with logins on all hosts, as in ann,bob", NONE),
)
"""All questions, in the order in which they are asked."""

YES, NO = ("y", "yes"), ("n", "no", "")
