"""Tasks for many hosts at once: run, put."""

from __future__ import annotations

from slurmfab.cli.tasks.command import command as task
from slurmfab.cli.tasks.options import Common, number


@task(
    common=("cluster", "json", "ask_sudo_password"),
    command="what the login shell runs there, as one word",
    sudo="run it as root",
    timeout="end it after so many seconds (default: no limit)",
)
def run(common: Common, command: str, *, on: str = "", exclude: str = "", sudo: bool = False, timeout: str = "") -> int:
    """Run a command on many hosts at once.

    Hosts with equal outputs are one, as in n[01-14,16]. Output and errors of a host come together. A host that prints
    more than 1 MiB is cut off there. Ctrl-C, or the end of this machine, ends the command on all hosts. Exit codes: 0
    it ended with 0 everywhere, 1 it failed somewhere, 2 wrong input, 3 it failed nowhere, but some hosts could not be
    reached.

    Examples:
        fab run uptime
        fab run 'systemctl is-active slurmd' --on compute --exclude n3
        fab run 'nvidia-smi -L' --on gpu
        fab run 'apt-get -q update' --sudo --on idle --timeout 300
    """
    from slurmfab.commands.remote import running

    where = running.Where(on, exclude)
    seconds = number(timeout, "--timeout")
    return running.run(common.cluster, command, where, common.output, sudo=sudo, seconds=seconds)


@task(
    common=("cluster", "json", "ask_sudo_password"),
    file="a file on this machine",
    destination="its absolute path there, or a directory with / at the end",
    owner="who owns it there (default: root)",
    group="its group there (default: root)",
    mode="its mode there, such as 0644 (default: as here)",
)
def put(
    common: Common,
    file: str,
    destination: str,
    *,
    on: str = "",
    exclude: str = "",
    owner: str = "",
    group: str = "",
    mode: str = "",
) -> int:
    """Put a file on many hosts at once.

    A host has the old file or the whole new one, never a part. Owner and mode are set before it gets its name, and a
    directory that other users can write to is never left by a link. A file that is right already stays. At most
    32 MiB. Exit codes: 0 all have it, 1 some do not, 2 wrong input, 3 all that could be reached have it.

    Examples:
        fab put motd /etc/motd
        fab put license.dat /opt/abaqus/ --on compute --mode 0640 --group users
    """
    from slurmfab.commands.remote import putting, running

    access, where = putting.Access(owner, group, mode), running.Where(on, exclude)
    return putting.put(common.cluster, file, destination, access, common.output, where=where)
