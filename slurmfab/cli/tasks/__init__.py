"""The commands: a few lines each, every task of one kind in one module; those about all tasks are here."""

from __future__ import annotations

import sys
from pathlib import Path

from invoke.collection import Collection
from invoke.util import helpline

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks import (
    backup,
    bundle,
    check,
    cluster_file,
    deploy,
    history,
    lab,
    munge,
    nodes,
    people,
    rehearse,
    remote,
    showing,
    ssh,
    support,
    update,
)  # fmt: skip
from slurmfab.cli.tasks.collection import namespace
from slurmfab.cli.tasks.command import Command, command
from slurmfab.cli.tasks.options import Common

SHELLS = ("bash", "zsh", "fish")


@command(common=())
def help(_common: Common) -> None:
    """Show all tasks in groups, those of the fabfile as well.

    The help of one task is shown by its option --help. Exit codes: 0 shown, 2 wrong input.

    Examples:
        fab help
    """
    print(overview(namespace))  # noqa: T201 - the answer


@command(common=(), shell="bash, zsh or fish")  # noqa: S604 - the help of a word
def completion(_common: Common, shell: str) -> None:
    """Print a script that completes command lines in your shell.

    It completes tasks, options, and their values: hosts, partitions, users and accounts of the cluster file, nodes that
    were drained for resume, groups of checks, recorded runs, files. Both fab and slurmfab are completed.

    In ~/.bashrc or ~/.zshrc, eval "$(slurmfab completion bash)" is enough. Exit codes: 0 printed, 2 wrong input.

    Examples:
        fab completion bash
        fab completion fish > ~/.config/fish/conf.d/slurmfab.fish
    """
    from argcomplete.shell_integration import shellcode

    if shell not in SHELLS:
        raise InputError(f"There is no completion for {shell}; there is for {', '.join(SHELLS)}.")
    program = Path(sys.executable).with_name("slurmfab")
    print(shellcode(["slurmfab", "fab"], shell=shell, argcomplete_script=str(program)))  # noqa: T201 - the answer


Group = tuple[str, tuple[Command, ...]]  # a heading, and the tasks below it
GROUPS: tuple[Group, ...] = (
    ("First contact and deployment",
        (cluster_file.init, deploy.deploy, deploy.plan, deploy.phases, cluster_file.import_, munge.rotate_munge_key,
         munge.rotate_jwt_key, bundle.bundle, cluster_file.schema)),
    ("Checks", (nodes.status, check.check_cluster, check.quickcheck, check.check_gpus, check.accept, check.drill)),
    ("What the cluster looks like",
        (showing.report, showing.drift, showing.logs, showing.explain, showing.topology, showing.monitoring_files,
         showing.user_guide, showing.portal_files, showing.eject)),
    ("Nodes", (deploy.add_node, nodes.remove_node, nodes.replace_node, nodes.accept_hardware, nodes.drain, nodes.resume,
               nodes.reboot)),
    ("Updates and upgrades", (update.update, update.upgrade, rehearse.rehearse)),
    ("Commands and logins of your own", (remote.run, remote.put, ssh.ssh, ssh.ssh_config)),
    ("People and accounts",
        (people.add_user, people.remove_user, people.accounts_export, people.usage, people.close_runaways)),
    ("History and undo", (history.history, history.rollback, history.restore_lock)),
    ("Asking for help", (support.doctor, support.support_bundle)),
    ("Backups", (backup.backup, backup.restore)),
    ("Lab: hosts on this machine, to try slurmfab",
        (lab.lab_up, lab.lab_down, lab.lab_off, lab.lab_on, lab.lab_status)),
    ("Help", (help, completion)),
)  # fmt: skip
"""All tasks, in the order in which they are shown."""

TASKS = {task.name: task for _, tasks in GROUPS for task in tasks}  # all tasks by their names

SUMMARY = "slurmfab turns bare machines into a working Slurm cluster over SSH, and keeps it working."


def overview(tasks: Collection) -> str:
    """All tasks in groups, those of the site as the last one, a line each, under a sentence about the program."""
    groups = [(title, [(one.name, helpline(one) or "") for one in members]) for title, members in GROUPS]
    site = [(name, helpline(tasks[name]) or "") for name in tasks.task_names if name not in TASKS]
    groups += [("Tasks of the fabfile", site)] if site else []
    width = max(len(name) for _, members in groups for name, _ in members)
    lines = [SUMMARY]
    for title, members in groups:
        lines += ["", f"{title}:", *(f"  {name:{width}}   {text}".rstrip() for name, text in members)]
    return "\n".join([*lines, "", f"Help for one task: {FAB} TASK --help. Options in front of a task: {FAB} --help."])


for _task in TASKS.values():
    namespace.add_task(_task)
namespace.default = "help"

__all__ = ["GROUPS", "SHELLS", "TASKS", "namespace", "overview"]
