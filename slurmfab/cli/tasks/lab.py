"""Tasks of the lab: real systemd hosts on this machine, to try slurmfab without other machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from slurmfab.base.errors import InputError
from slurmfab.base.program_name import FAB
from slurmfab.cli.tasks.command import command
from slurmfab.cli.tasks.options import Common, number


@command(
    common=(),
    name="name of the lab: one to eight of a-z and 0-9, starting with a letter",
    nodes="number of compute nodes",
    suite="release of the hosts: bookworm, trixie (by default) or sid of Debian, noble or resolute of Ubuntu",
    gpus="stand-in GPUs, HOSTS:COUNT[:MODEL] separated by spaces, as in 'n[1-2]:2 n3:4:A100-SXM4-40GB'",
    no_python="hosts without python3, as in n1,n[3-4]",
    like="hosts with Ubuntu's habits, made of Debian: ubuntu-24.04 or ubuntu-26.04; this sets suite and user",
    user="login user: root (by default), or another user with sudo",
    sudo_password="that user's sudo asks for a password",  # noqa: S106 - the help of an option
    down="hosts that are in the cluster file but stay switched off",
    hanging="hosts whose port 22 accepts connections and then says nothing",
    unified="hosts with control groups of version 2 only, as in n2",
    offline="hosts that reach no package mirror",
    ipv6="hosts with an IPv6 address and no IPv4 address",
    dual="hosts with an IPv4 and an IPv6 address",
    packages="Slurm's packages: debian, or stand-ins: smd; el-smd, el, el-openhpc on one for Enterprise Linux",
    shared="directories that all hosts share, as a file server would give them: /home,/data",
    private_users="root of the hosts is nobody on this machine, as on a twin",
    newer_slurm="hosts see a repository with a newer Slurm as /srv/newer-slurm",
    output="cluster file to write (default: configs/lab-NAME.yaml)",
)
def lab_up(
    _common: Common,
    *,
    name: str = "lab",
    nodes: str = "2",
    suite: str = "",
    like: str = "",
    gpus: str = "",
    no_python: str = "",
    user: str = "",
    sudo_password: bool = False,
    down: str = "",
    hanging: str = "",
    unified: str = "",
    offline: str = "",
    ipv6: str = "",
    dual: str = "",
    packages: str = "debian",
    shared: str = "",
    private_users: bool = False,
    newer_slurm: bool = False,
    output: str = "",
) -> None:
    """Start real systemd hosts on this machine.

    Needs root, writes a cluster file, and takes minutes the first time. Exit codes: 0 up, 1 failed, 2 wrong input.

    Examples:
        fab lab-up --nodes 4 --suite bookworm --gpus 'n[1-2]:2'
        fab lab-up --packages smd
        fab lab-up --like ubuntu-24.04
        fab lab-up --name rough --nodes 5 --user admin --sudo-password --no-python n1 --down n4 --hanging n5
    """
    from slurmfab import lab
    from slurmfab.cluster.inventory import fabfile
    from slurmfab.lab import ubuntu_like

    named = {"no_python": no_python, "down": down, "hanging": hanging, "unified": unified, "offline": offline}
    given: dict[str, Any] = {option: _hosts(text) for option, text in (named | {"ipv6": ipv6, "dual": dual}).items()}
    given |= {"slurm_packages": packages, "gpus": _gpus(gpus), "shared": tuple(filter(None, shared.split(",")))}
    given |= {"newer_slurm": newer_slurm, "private_users": private_users, "sudo_password": sudo_password, "like": like}
    like_suite, like_user = ubuntu_like.suite_and_user(like)
    spec = lab.LabSpec(
        name=name, suite=suite or like_suite, nodes=number(nodes, "--nodes") or 0, ssh_user=user or like_user, **given
    )
    made = lab.up(spec, output=Path(output) if output else None, progress=lambda line: _say(f"lab {name}: {line}"))
    if written := fabfile.provide(made.cluster_file):
        _say(written)
    login = f"ssh -F {made.directory / 'ssh_config'} {made.hosts[0].name}"
    _say(f"lab {name}: up; cluster file {made.cluster_file}; to look around: {login}")


@command(
    common=(),
    name="name of the lab",
    all="every lab on this machine",
    cache="also the base trees that no lab uses; the next lab-up builds them again",
)
def lab_down(_common: Common, *, name: str = "lab", all: bool = False, cache: bool = False) -> None:
    """Remove a lab and everything that was made for it.

    This works after a killed lab-up too. If there is no lab of that name, the task says so and succeeds. Exit codes:
    0 there is no such lab now, 1 failed, 2 wrong input.

    Examples:
        fab lab-down
        fab lab-down --name rough
        fab lab-down --all --cache
    """
    from slurmfab import lab

    for one in lab.names() if all else (name,):
        _say(f"lab {one}: removed" if lab.down(one) else f"lab {one}: there was none")
    if cache:
        lab.remove_cache()
        _say("base trees that no lab uses: removed")


@command(
    common=(),
    hosts="hostlist of the lab's hosts",
    name="name of the lab",
)
def lab_off(_common: Common, hosts: str, *, name: str = "lab") -> None:
    """Cut the power of hosts of a lab.

    The hosts end at once, without a shutdown, and keep their disks: so does a machine whose power fails. Exit codes: 0
    off, 1 the machine cannot do that, 2 there is no such lab or host.

    Examples:
        fab lab-off n2
        fab lab-off 'n[1-2]' --name rough
    """
    from slurmfab import lab

    made = lab.load(name)
    for host in [made.host(one).name for one in _hosts(hosts)]:  # all of them exist, or none is touched
        lab.kill_host(made, host)
        _say(f"{host}: off")


@command(
    common=(),
    hosts="hostlist of the lab's hosts",
    name="name of the lab",
)
def lab_on(_common: Common, hosts: str, *, name: str = "lab") -> None:
    """Switch on hosts of a lab that are off.

    Hosts boot with the disks that they had, and the task ends when they answer. Exit codes: 0 on, 1 a host does not
    start, 2 there is no such lab or host.

    Examples:
        fab lab-on n2
    """
    from slurmfab import lab

    made = lab.load(name)
    for host in [made.host(one).name for one in _hosts(hosts)]:  # all of them exist, or none is touched
        lab.start_host(made, host)
        _say(f"{host}: on")


@command(common=())
def lab_status(_common: Common) -> None:
    """Show the labs on this machine.

    For each host: its address, and whether it answers on SSH. Exit codes: 0 shown, 1 failed.

    Examples:
        fab lab-status
    """
    from slurmfab import lab

    hosts = lab.status()
    for host in hosts:
        _say(f"{host.lab:8} {host.name:5} {host.address:22} {host.role:10} {host.state}")
    if not hosts:
        _say(f"There is no lab on this machine. Start one: {FAB} lab-up.")


def _hosts(text: str) -> tuple[str, ...]:
    """Host names from a hostlist as typed; none when nothing was typed."""
    from slurmfab.base.hostlist import expand

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
