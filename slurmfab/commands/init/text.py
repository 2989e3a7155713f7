"""The text of a first cluster file: what was answered, and what one may want next as comments."""

from __future__ import annotations

import re

from slurmfab.base import hostlist
from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.edits.writing import HEAD, SSH
from slurmfab.cluster.inventory.edits.yaml_text import yaml_text
from slurmfab.commands.init.answers import Answers

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


def text(answers: Answers) -> str:
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
        loading.parse(text(answers), _WHERE)
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
