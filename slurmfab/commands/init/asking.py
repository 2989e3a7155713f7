"""The questions of `fab init` on a terminal, and the files that their answers make."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurmfab.base import hostlist
from slurmfab.base.errors import ClusterFileError, InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE, INTERRUPTED
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import can_ask, write
from slurmfab.cluster.inventory import fabfile, loading, schema_file, shared_files
from slurmfab.cluster.inventory.edits import writing
from slurmfab.cluster.inventory.edits.writing import HEAD, SSH
from slurmfab.cluster.inventory.edits.yaml_text import yaml_text
from slurmfab.cluster.inventory.lock import Lock


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


HOME = "/home"

_WHERE = "answers"
_PLACE = re.compile(rf"{_WHERE}:\d+: ([\w.\[\]]+: )?")
_UNANSWERED = {"controller": "controller-to-be", "nodes": "node-to-be"}

_ADDRESSES = """\
# Addresses, where names do not resolve on all hosts; two hostlists of the same length are paired.
# addresses:
#   {controller}: 10.0.0.1
#   {nodes}: 10.0.1.[1-{count}]
"""
_NODES = """\
# Compute nodes in groups with the same settings. CPUs, memory and GPUs are found at the first contact.
nodes:
"""
_LATER = """\
# More, once the cluster runs; docs/reference/cluster-file.md has all keys:
#
# backup: {directory: /backup/slurm}
# health: true
# monitoring: true
# node_logins: with_job
# slurm_conf:
#   SlurmdTimeout: 300
"""
_ACCOUNTS = """\
# With accounts, Slurm enforces limits; each user then needs one, as in {name: ann, accounts: [physics]}.
# accounts:
#   - {name: physics, Fairshare: 10}
"""


def cluster_file_text(answers: Answers) -> str:
    """The text of the cluster file; HostlistError if the nodes, or those with GPUs, are no hostlist."""
    parts = (
        HEAD + f"cluster: {yaml_text(answers.name)}\n",
        ssh(answers),
        _ADDRESSES.format(
            controller=answers.controller, nodes=answers.nodes, count=len(hostlist.expand(answers.nodes))
        ),
        daemons(answers),
        _NODES + nodes(answers),
        partitions(answers),
        homes(answers),
        users(answers),
        _LATER,
    )
    return "\n".join(filter(None, parts))


def complaint(answers: Answers) -> str:
    """Why a cluster file with the answers so far has a mistake, in its words; empty if it has none."""
    for field, value in _UNANSWERED.items():
        if not getattr(answers, field):
            answers = answers.with_answer(field, value)
    try:
        loading.parse(cluster_file_text(answers), _WHERE)
    except ClusterFileError as error:
        return _PLACE.sub("", error.complaints[0])
    except InputError as error:
        return str(error)
    return ""


def ssh(answers: Answers) -> str:
    """How SSH reaches the hosts."""
    values = {"user": answers.user, "become": "" if answers.user == "root" else "sudo"}
    inside = ", ".join(f"{key}: {yaml_text(value, in_flow=True)}" for key, value in values.items() if value)
    return f"{SSH}\nssh: {{{inside}}}\n"


def daemons(answers: Answers) -> str:
    """The hosts of slurmctld and slurmdbd, and login hosts."""
    lines = ["# The host of slurmctld.", f"controllers: [{yaml_text(answers.controller, in_flow=True)}]"]
    if answers.login:
        lines += ["", "# Login hosts have Slurm's commands and no daemons.", f"login: {yaml_text(answers.login)}"]
    if answers.accounting:
        lines += ["", "# The host of slurmdbd and MariaDB, which keep who used what.",
                  f"database: {yaml_text(answers.controller)}"]  # fmt: skip
    return "\n".join(lines) + "\n"


def nodes(answers: Answers) -> str:
    """The groups of nodes: those with GPUs, and the others."""
    with_gpus, others = split(answers)
    lines = [f"  - hosts: {yaml_text(hostlist.fold_in_order(others))}"] if others else []
    if with_gpus:
        lines += [f"  - hosts: {yaml_text(hostlist.fold_in_order(with_gpus))}", "    # Gres: gpu:a100:4"]
    return "\n".join(lines) + "\n"


def partitions(answers: Answers) -> str:
    """The partitions: one of all nodes, or one of those with GPUs beside that of the others."""
    _, others = split(answers)
    is_divided = bool(answers.gpu_nodes) and set(hostlist.expand(answers.gpu_nodes)) != set(
        hostlist.expand(answers.nodes)
    )
    lines = ["partitions:", "  - PartitionName: main",
             f"    Nodes: {yaml_text(hostlist.fold_in_order(others)) if is_divided and others else 'ALL'}",
             "    Default: YES", "    # MaxTime: 7-00:00:00"]  # fmt: skip
    if is_divided:
        lines += ["  - PartitionName: gpu", f"    Nodes: {yaml_text(answers.gpu_nodes)}"]
    return "\n".join(lines) + "\n"


def split(answers: Answers) -> tuple[list[str], list[str]]:
    """The compute nodes with GPUs, and the others."""
    with_gpus = set(hostlist.expand(answers.gpu_nodes) if answers.gpu_nodes else ())
    members = hostlist.expand(answers.nodes)
    return [host for host in members if host in with_gpus], [host for host in members if host not in with_gpus]


def homes(answers: Answers) -> str:
    """Where the homes of users are."""
    if not answers.homes:
        return ""
    source = yaml_text(answers.homes, in_flow=True)
    return (
        "# Homes on the file server, on all hosts where people or jobs work.\n"
        f"mounts:\n  - {{path: {HOME}, source: {source}, type: nfs4}}\nhomes: {HOME}\n"
    )


def users(answers: Answers) -> str:
    """The users, and how they get accounts."""
    names = [name.strip() for name in answers.users.split(",") if name.strip()]
    lines = ["# The same users on all hosts; `fab add-user` adds more, with their SSH keys.", "users:"] if names else []
    lines += [f"  - {{name: {yaml_text(name, in_flow=True)}}}" for name in names]
    accounts = _ACCOUNTS if answers.accounting else ""
    return "\n".join(filter(None, ("\n".join(lines) + "\n" if lines else "", accounts)))


BEGINNING = "A few questions for a cluster file; Enter takes what is in brackets."
NOTHING = "Nothing was written."


def init(cluster: str, given: Mapping[str, str | bool], *, yes: bool) -> int:
    """Ask for what a first cluster file needs, and write it.

    `given`: the answers that flags gave, by field of `Answers`. Raises InputError if the file exists, a flag has a
    mistake, or a needed answer is missing and nobody can be asked. Raises SlurmfabError if the user does not want the
    file.
    """
    path = loading.named_path(cluster)
    refuse_existing(path)
    answers = checked(given)
    if not yes and can_ask():
        try:
            write(BEGINNING, sys.stderr)
            for question in QUESTIONS:
                if question.field not in given:
                    answers = ask(question, answers)
            if typed(f"Write {path}? [Y/n] ").lower() not in ("", *YES):
                raise SlurmfabError(NOTHING)
        except KeyboardInterrupt:
            write(f"\n{NOTHING}", sys.stderr)
            return INTERRUPTED
    refuse_missing(answers)
    for line in write_files(path, answers):
        write(line, sys.stdout)
    return DONE


def refuse_existing(path: Path) -> None:
    """Refuse to begin where a cluster file or a lock is. Raises InputError if one is there."""
    there = shared_files.existing(path)
    if there:
        raise InputError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already, and {FAB} init writes new "
            f"files only. Change the file, or name another one: {FAB} init --cluster configs/NAME.yaml. {NOTHING}"
        )


def checked(given: Mapping[str, str | bool]) -> Answers:
    """The answers that flags gave. Raises InputError if one of them has a mistake."""
    answers = Answers()
    for question in QUESTIONS:
        if question.field in given:
            answers = answers.with_answer(question.field, given[question.field])
            if wrong := complaint(answers):
                raise InputError(f"{question.flag} {given[question.field]}: {wrong}. {NOTHING}")
    return answers


def ask(question: Question, answers: Answers) -> Answers:
    """Ask until the answer is right; the answers with this one, SlurmfabError if the input ends."""
    while True:
        line = typed(f"{question.text}{f' [{question.default}]' if question.default else ''}: ")
        if line == question.default == NONE:
            line = ""
        value: str | bool = line or getattr(answers, question.field)
        if question.field == "accounting":
            value = line.lower() in YES
            if not value and line.lower() not in NO:
                write("  y or n", sys.stderr)
                continue
        if question.is_required and not value:
            write("  this answer is needed", sys.stderr)
            continue
        found = answers.with_answer(question.field, value)
        wrong = complaint(found)
        if not wrong:
            return found
        write(f"  {wrong}", sys.stderr)


def typed(prompt: str) -> str:
    """A line that the user types, without the spaces around it. Raises SlurmfabError if the input ends."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise SlurmfabError(f"\n{NOTHING}")
    return line.strip()


def refuse_missing(answers: Answers) -> None:
    """Refuse to go on without the answers that a file needs. Raises InputError if one is missing."""
    missing = [question.flag for question in QUESTIONS if question.is_required and not getattr(answers, question.field)]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} needed, as nobody is asked here: "
            f"{FAB} init --name lab --controller ctl --nodes 'n[1-4]' --yes. {NOTHING}"
        )


def write_files(path: Path, answers: Answers) -> list[str]:
    """Write cluster file, schema and fabfile; what was written and comes next, InputError if it cannot be."""
    with shared_files.exclusively(path):
        refuse_existing(path)
        schema_file.provide(path, Lock())
        writing.write(path, schema_file.modeline(path) + cluster_file_text(answers))
    nodes = fold(expand(answers.nodes))
    lines = [f"Wrote {path}: {answers.controller} is the controller, {nodes} compute.", fabfile.provide(path)]
    named = "" if path == loading.default_path() else f" --cluster {path}"
    return [
        *filter(None, lines),
        f"Next: read {path}. {FAB} plan{named} shows what a deployment would do, {FAB} deploy{named} does it, with "
        "--accept-new-host-keys for hosts whose SSH keys are not in known_hosts.",
    ]
