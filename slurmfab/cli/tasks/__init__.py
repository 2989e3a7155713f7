"""The commands: a few lines each, every task of one kind in one module; those about all tasks are here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cli.completion import script
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
)
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common
from slurmfab.cli.tasks.spelling import closest, did_you_mean

if TYPE_CHECKING:
    from slurmfab.cli.tasks.description import Description
    from slurmfab.cli.tasks.help import Group


@command(common=(), positional=["[task]"], help={"task": "the task to show the help of (default: list all tasks)"})
def help(_common: Common, *, task: str = "") -> None:
    """Show all tasks, or the help of one.

    Exit codes: 0 shown, 2 there is no such task.

    Examples:
        fab help
        fab help add-node
    """
    print(help_text(task))  # noqa: T201 - the answer


@command(common=(), positional=["shell"], help={"shell": "bash, zsh or fish"})
def completion(_common: Common, shell: str) -> None:
    """Print a script that completes command lines in your shell.

    It completes tasks, options, and their values: hosts, partitions, users and accounts of the cluster file, nodes that
    were drained for resume, groups of checks, recorded runs, files. Both fab and slurmfab are completed.

    In ~/.bashrc or ~/.zshrc, eval "$(slurmfab completion bash)" is enough. Exit codes: 0 printed, 2 wrong input.

    Examples:
        fab completion bash
        fab completion fish > ~/.config/fish/conf.d/slurmfab.fish
    """
    print(script.script(shell))  # noqa: T201 - the answer


GROUPS: tuple[Group, ...] = (
    (
        "First contact and deployment",
        (
            cluster_file.init,
            deploy.deploy,
            deploy.plan,
            deploy.phases,
            cluster_file.import_,
            munge.rotate_munge_key,
            munge.rotate_jwt_key,
            bundle.bundle,
            cluster_file.schema,
        ),
    ),
    ("Checks", (nodes.status, check.check_cluster, check.quickcheck, check.check_gpus, check.accept, check.drill)),
    (
        "What the cluster looks like",
        (
            showing.report,
            showing.drift,
            showing.logs,
            showing.explain,
            showing.topology,
            showing.monitoring_files,
            showing.user_guide,
            showing.portal_files,
            showing.eject,
        ),
    ),
    ("Nodes", (deploy.add_node, nodes.remove_node, nodes.replace_node, nodes.drain, nodes.resume, nodes.reboot)),
    ("Updates and upgrades", (update.update, update.upgrade, rehearse.rehearse)),
    ("Commands and logins of your own", (remote.run, remote.put, ssh.ssh, ssh.ssh_config)),
    (
        "People and accounts",
        (people.add_user, people.remove_user, people.accounts_export, people.usage, people.close_runaways),
    ),
    ("History and undo", (history.history, history.rollback, history.restore_lock)),
    ("Asking for help", (support.doctor, support.support_bundle)),
    ("Backups", (backup.backup, backup.restore)),
    (
        "Lab: hosts on this machine, to try slurmfab",
        (lab.lab_up, lab.lab_down, lab.lab_off, lab.lab_on, lab.lab_status),
    ),
    ("Help", (help, completion)),
)
"""All tasks, in the order in which they are shown."""

TASKS = {task.name: task for _, tasks in GROUPS for task in tasks}  # all tasks by their names


def help_text(task: str) -> str:
    """The help of a task; without a name, all tasks. Raises InputError if there is no such task."""
    from slurmfab.cli.tasks.help import overview, task_help  # most runs show none

    if task and task not in TASKS:
        near = did_you_mean(closest(task, TASKS))
        raise InputError(f"There is no task {task}.{near} All tasks: {FAB} help.")
    return task_help(TASKS[task]) if task else overview(GROUPS)


def all_tasks() -> tuple[Description, ...]:
    """All tasks, in the order in which `fab help` shows them."""
    from slurmfab.cli.tasks.description import described

    return tuple(described(task, group) for group, tasks in GROUPS for task in tasks)
