"""Tasks of the lab: real systemd hosts on this machine, to try a cluster before there is one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.context import Context

from slurmfab.errors import InputError
from slurmfab.tasks.command import command

if TYPE_CHECKING:
    from slurmfab.lab import Lab


@command(
    help={
        "name": "name of the lab: one to eight of a-z and 0-9, a letter first",
        "nodes": "number of compute nodes",
        "suite": "Debian release of the hosts: bookworm, trixie or sid",
        "gpus": "stand-in GPUs, HOSTS:COUNT[:MODEL] separated by spaces, as in 'n[1-2]:2 n3:4:A100-SXM4-40GB'",
        "no_python": "hosts without python3, as in n1,n[3-4]",
        "user": "who logs in: root, or another user, who then has sudo",
        "sudo_password": "that user's sudo asks for a password",
        "down": "hosts that the cluster file names but that stay switched off",
        "hanging": "hosts whose port 22 accepts connections and then says nothing",
        "unified": "hosts with control groups of version 2 alone, as in n2",
        "offline": "hosts without a way to a package mirror",
        "output": "cluster file to write (default: configs/lab-NAME.yaml)",
    },
)
def lab_up(  # noqa: PLR0917 - each argument is an option of the command line
    _c: Context,
    name: str = "lab",
    nodes: str = "2",
    suite: str = "trixie",
    gpus: str = "",
    no_python: str = "",
    user: str = "root",
    sudo_password: bool = False,
    down: str = "",
    hanging: str = "",
    unified: str = "",
    offline: str = "",
    output: str = "",
) -> None:
    """Start real systemd hosts on this machine.

    Needs root, and writes a cluster file for them. The first lab of a suite takes a minute or two, later ones seconds.

    Examples:
        fab lab-up --nodes 4 --suite bookworm --gpus 'n[1-2]:2'
        fab lab-up --name rough --nodes 5 --user admin --sudo-password --no-python n1 --down n4 --hanging n5
    """
    from slurmfab import lab  # noqa: PLC0415 - `fab --list` shall not pay for it

    spec = lab.LabSpec(
        name=name,
        suite=suite,
        nodes=_number(nodes),
        gpus=_gpus(gpus),
        no_python=_hosts(no_python),
        ssh_user=user,
        sudo_password=sudo_password,
        down=_hosts(down),
        hanging=_hosts(hanging),
        unified=_hosts(unified),
        offline=_hosts(offline),
    )
    made = lab.up(spec, output=Path(output) if output else None, progress=lambda line: _say(f"lab {name}: {line}"))
    _say(_summary(made))


@command(
    help={
        "name": "name of the lab",
        "all": "every lab on this machine",
        "cache": "also the base trees that no lab uses; the next lab-up builds them again",
    },
)
def lab_down(_c: Context, name: str = "lab", all: bool = False, cache: bool = False) -> None:
    """Remove a lab and everything that was made for it.

    Works after a killed lab-up too, and says nothing worse than that there was no lab.

    Examples:
        fab lab-down
        fab lab-down --name rough
        fab lab-down --all --cache
    """
    from slurmfab import lab  # noqa: PLC0415 - `fab --list` shall not pay for it

    known = lab.names()
    for one in known if all else (name,):
        lab.down(one)
        _say(f"lab {one}: removed" if one in known else f"lab {one}: there was none")
    if cache:
        lab.remove_cache()
        _say("base trees that no lab uses: removed")


@command()
def lab_status(_c: Context) -> None:
    """Show the labs on this machine.

    Of each host: its address, and whether it answers on SSH.

    Examples:
        fab lab-status
    """
    from slurmfab import lab  # noqa: PLC0415 - `fab --list` shall not pay for it

    hosts = lab.status()
    for host in hosts:
        _say(f"{host.lab:8} {host.name:5} {host.address:15} {host.role:10} {host.state}")
    if not hosts:
        _say("There is no lab on this machine. Start one with lab-up.")


def _summary(made: Lab) -> str:
    """What the user wants to know when a lab is up."""
    login = f"ssh -F {made.directory / 'ssh_config'} {made.hosts[0].name}"
    return f"lab {made.name}: up; cluster file {made.cluster_file}; to look around: {login}"


def _number(text: str) -> int:
    """The number of nodes as typed."""
    if not text.isdecimal():
        raise InputError(f'--nodes "{text}": give a number of compute nodes, as in --nodes 2.')
    return int(text)


def _hosts(text: str) -> tuple[str, ...]:
    """Host names from a hostlist as typed; none when nothing was typed."""
    from slurmfab.hostlist import expand  # noqa: PLC0415 - `fab --list` shall not pay for it

    return expand(text) if text else ()


def _gpus(text: str) -> tuple[str, ...]:
    """`HOST:COUNT` or `HOST:COUNT:MODEL` entries from what was typed, one per host."""
    entries = [entry.partition(":") for entry in text.split()]
    for hosts, _, count in entries:
        if not hosts or not count:
            raise InputError(
                f'--gpus "{text}": write HOSTS:COUNT or HOSTS:COUNT:MODEL, separated by spaces, as in "n[1-2]:2 n3:4".'
            )
    return tuple(f"{host}:{count}" for hosts, _, count in entries for host in _hosts(hosts))


def _say(line: str) -> None:
    """Show one line to the user at once."""
    print(line, file=sys.stdout, flush=True)  # noqa: T201 - this is what the task is for
