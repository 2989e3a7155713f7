"""Switching hosts on and off: systemd-nspawn, and the processes that it leads to."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from slurmfab.errors import LabError
from slurmfab.lab import cgroups, namespaces
from slurmfab.lab.command import TIED
from slurmfab.lab.layout import HostLayout
from slurmfab.lab.spec import LabSpec

BANNER = b"SSH-"
"""How an SSH server begins to speak, RFC 4253 section 4.2."""

REBOOT = 133
"""What systemd-nspawn --keep-unit ends with when its host wants to be started anew, as `reboot` does there."""

TIME_NAMESPACE = Path("/proc/self/ns/time")
"""Where the kernel has time namespaces (Linux 5.6). Without them hosts believe that they booted with this machine."""

BOOT = f"""
while :; do
    if [ -e {TIME_NAMESPACE} ]; then
        read -r up _ </proc/uptime
        unshare --time --boottime "-${{up%.*}}" --fork "$@"
    else
        "$@"
    fi
    [ $? = {REBOOT} ] || break
    sleep 2
done
"""
"""Shell text: runs systemd-nspawn, and again when its host was rebooted, with a clock that counts from this boot on. No
machine is back within the second, and slurmctld, which counts seconds, would not believe it either."""

ENTER_CGROUPS = """
while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done
shift
exec setsid --fork "$@"
"""
"""Shell text: the process enters the given cgroups, then becomes an orphan in a session of its own, so that the host
outlives whoever started it."""

UNIFIED = "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"
"""Variable that tells systemd-nspawn which cgroup version to show to a host."""

NSPAWN_DIRECTORIES = ("/run/systemd/nspawn/propagate", "/run/systemd/nspawn/unix-export")
"""Where systemd-nspawn keeps a directory per machine."""


def switch_on(host: HostLayout, cgroup_directories: Iterable[Path], spec: LabSpec) -> None:
    """Boot a host whose root file system and namespace are ready; returns at once.

    Args:
        host: names and places of the host.
        cgroup_directories: the lab's directory in each cgroup hierarchy.
        spec: what its lab was asked to be.
    """
    subtrees = [cgroups.make(directory, host.name) for directory in cgroup_directories]
    nspawn = (
        "systemd-nspawn --boot --quiet --register=no --keep-unit --capability=all --resolv-conf=off --timezone=off "
        f"--link-journal=no --settings=no --directory={host.root} --machine={host.machine} --hostname={host.name} "
        f"--network-namespace-path=/run/netns/{host.namespace}"
    )
    for path in spec.shared:
        host.shared(path).mkdir(parents=True, exist_ok=True)
    binds = [f"--bind={host.shared(path)}:{path}" for path in spec.shared]
    environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}
    # The systemd of sid knows version 2 alone.
    if spec.suite == "sid" or host.name in spec.unified:
        environment[UNIFIED] = "1"
    with host.console.open("ab") as console:
        done = subprocess.run(
            [*TIED, "sh", "-ec", ENTER_CGROUPS, "sh", *map(str, subtrees), "--", "sh", "-c", BOOT, "power",
             *nspawn.split(), *binds],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment, check=False,
        )  # fmt: skip
    if done.returncode:
        raise LabError(f"{host.name}: it could not be started: {console_tail(host)}")


def switch_off(
    hosts: Iterable[HostLayout], cgroup_directories: Iterable[Path], remove: bool = False, patience: float = 20.0
) -> None:
    """End everything that runs in these cgroup subtrees, as if the power had failed.

    First go the PID 1 of the hosts, which the kernel lets take all their processes along; then what is left, such as
    systemd-nspawn itself. The other way round, hosts would live on without their systemd-nspawn.

    Args:
        hosts: the hosts that run there.
        cgroup_directories: the subtrees.
        remove: remove the subtrees too, which proves that nobody is in them any more.
        patience: seconds for all together.

    Raises:
        LabError: processes did not go away in time.
    """
    directories = tuple(cgroup_directories)
    deadline = time.monotonic() + patience
    # A dying process keeps its cgroup busy for a moment after it is no longer listed.
    while (running := cgroups.processes(directories)) or (remove and not all(map(cgroups.remove, directories))):
        for pid in frozenset(filter(_is_init, running)) or running:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            some = f"Processes: {sorted(running)[:5]}; cgroups: {directories[0]} and its like."
            raise LabError(
                f"The lab's processes do not end, or its cgroups stay busy. {some} Look with ps, then try again."
            )
        time.sleep(0.02)
    for host in hosts:
        _forget(host)


def _forget(host: HostLayout) -> None:
    """Remove what systemd-nspawn keeps per machine and per root file system, also after it was killed."""
    for place in NSPAWN_DIRECTORIES:
        shutil.rmtree(Path(place, host.machine), ignore_errors=True)
    if host.root.exists():
        seen = host.root.stat()
        Path(f"/run/systemd/nspawn/locks/inode-{seen.st_dev}:{seen.st_ino}").unlink(missing_ok=True)


def init_pid(subtrees: Iterable[Path]) -> int | None:
    """PID of the host's PID 1 as this machine sees it; None when the host is off."""
    return min(filter(_is_init, cgroups.processes(subtrees)), default=None)


def _is_init(pid: int) -> bool:
    """Whether a process is PID 1 of a namespace just below ours."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return numbers[1:] == ["1"]


def ssh_state(address: str, timeout: float = 1.0) -> str:
    """What a host does on port 22: `answers`, `silent` (accepts, but says nothing) or `off`."""
    try:
        with socket.create_connection((address, 22), timeout) as connection:
            return "answers" if connection.recv(len(BANNER)) == BANNER else "off"
    except ConnectionError:
        return "off"
    except TimeoutError:
        return _silent_or_off(address, timeout)
    except OSError:
        return "off"


def _silent_or_off(address: str, timeout: float) -> str:
    """Tell a connection that says nothing from no connection."""
    try:
        socket.create_connection((address, 22), timeout).close()
    except OSError:
        return "off"
    return "silent"


def wait(wanted: Mapping[HostLayout, tuple[str, str]], patience: float = 90.0) -> Iterable[HostLayout]:
    """Wait until hosts do on port 22 what they shall; yields each host when it does.

    Args:
        wanted: host to its address and the state to wait for, as in `ssh_state`.
        patience: seconds for all together.

    Raises:
        LabError: a host did not get there in time; the text has the end of its console.
    """
    left = dict(wanted)
    deadline = time.monotonic() + patience
    while left:
        for host, (address, state) in sorted(left.items(), key=lambda item: item[0].name):
            if ssh_state(address, 0.5) == state:
                del left[host]
                yield host
        if left and time.monotonic() > deadline:
            host = next(iter(left))
            raise LabError(f"{host.name}: it does not answer on SSH after {patience:.0f} s: {console_tail(host)}")
        time.sleep(0.05)
    namespaces.outnumber()


def console_tail(host: HostLayout) -> str:
    """The last lines that a host printed while booting."""
    text = host.console.read_text(errors="replace") if host.console.exists() else ""
    return " / ".join(text.strip().splitlines()[-3:]) or "it printed nothing"
