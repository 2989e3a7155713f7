"""The task that carries another one out on a twin of the cluster: rehearse."""

from __future__ import annotations

from collections.abc import Mapping

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.command import Inside, command, number
from slurmfab.cli.tasks.options import COMMON, CONNECTION, Common

REFUSED: Mapping[str, tuple[str, ...]] = {
    "deploy": ("plan", "retry_failed", "wake", *CONNECTION),
    "upgrade": ("back", "identity", "abandon_jobs", "plan"),
    "restore": ("database",),
    "rotate-munge-key": (),
    "remove-node": (),
}  # fmt: skip
"""The tasks that can be rehearsed, each with the options that make no sense on a twin."""


@command(
    rest="command",
    help={
        "command": f"the command, with its own words and options: {', '.join(REFUSED)}",
        "kill": "kill the command so many times in the middle of its work, each time after another while",
        "power_cut": "a host whose power is cut while the command works, and comes back",
        "identity": "file with the private key of age, or SSH private key, that decrypts the backups",
        "keep": "leave the twin up, to look around",
    },
)
def rehearse(
    common: Common, command: Inside, *, kill: str = "", power_cut: str = "", identity: str = "", keep: bool = False
) -> int:
    """Carry a command out on a twin of the cluster.

    The twin has the cluster's controllers, database and login hosts, some nodes of each kind, and the state and the
    database of the newest backup. Its hosts are containers on this machine, which needs root and the packages that labs
    need. Jobs like last week's run there meanwhile. The cluster is asked, and nothing is changed on it. What stands in
    front of the command is for the rehearsal. Exit codes: 0 all went well, 1 the change fails or does harm, or there
    can be no twin, 2 wrong input, 4 it went well, and something is to be looked at first.

    Examples:
        fab rehearse deploy
        fab rehearse --kill 3 upgrade --to 26.05
        fab rehearse --power-cut n2 --keep restore configs/cluster.backups/titanic-20261121T143200Z.tar
    """
    from slurmfab.commands.rehearse import rehearsing

    refuse(command)
    values = Common(**{one: command.given.get(one) or getattr(common, one) for one in COMMON})
    kills = number(kill, "--kill") or 0
    key = identity or command.given.get("identity", "")
    wanted = rehearsing.Wanted(command.words, command.given.get("hosts", ""), kills, power_cut, keep, key)
    return rehearsing.rehearse(values.cluster, wanted, values.output)


def refuse(command: Inside) -> None:
    """Refuse, by InputError, a command that cannot be rehearsed, and options that make no sense there."""
    if command.name not in REFUSED:
        raise InputError(f"{command.name} cannot be rehearsed. These can: {', '.join(REFUSED)}. Nothing was started.")
    strange = [f"--{one.replace('_', '-')}" for one in REFUSED[command.name] if command.given.get(one)]
    if strange:
        raise InputError(f"{FAB} rehearse {command.name}: leave out {' and '.join(strange)}. Nothing was started.")
