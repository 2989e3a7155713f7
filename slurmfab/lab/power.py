"""Switching hosts on and off: starts systemd-nspawn, kills the processes of hosts, and probes their port 22."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from threading import Thread

from slurmfab.base.errors import LabError
from slurmfab.lab import cgroups, el_repository, mounts, network, private_users, roots, slurm_repository
from slurmfab.lab.command import TIED
from slurmfab.lab.layout import HostLayout
from slurmfab.lab.spec import UNIFIED_SUITES, LabSpec

BATCH = 4096  # how many namespace numbers a CPU reserves at once (Linux 6.18, kernel/nstree.c and linux/cookie.h)
CLONE_NEWUTS = 0x04000000  # flag for a new UTS namespace, the cheapest kind (linux/sched.h)


def outnumber() -> None:
    """Use up namespace numbers until new namespaces get higher numbers than all existing ones.

    A process can bind-mount a mount namespace only if its number is higher than that of the process's own mount
    namespace (fs/namespace.c, mnt_ns_loop). Slurm does this for jobs' private directories. Since Linux 6.18 each CPU
    assigns numbers from its own batch, so a namespace made on one CPU can have a lower number than that of a host
    started on another CPU. Real machines use the first namespace and do not have this problem.
    """
    threads = [Thread(target=_use_up, args=(processor,)) for processor in sorted(os.sched_getaffinity(0))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _use_up(processor: int) -> None:
    """Make a CPU reserve its next batch; the calling thread is in another UTS namespace afterwards."""
    os.sched_setaffinity(0, {processor})
    unshare = ctypes.CDLL(None).unshare
    for _ in range(BATCH + 1):
        unshare(CLONE_NEWUTS)


BANNER = b"SSH-"  # first bytes that an SSH server sends (RFC 4253, section 4.2)
REBOOT = 133  # exit code of `systemd-nspawn --keep-unit` when its host requests a reboot

TIME_NAMESPACE = Path("/proc/self/ns/time")
"""Exists if the kernel has time namespaces (Linux 5.6). Without them hosts report this machine's boot time."""

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
"""Shell script that runs systemd-nspawn, and runs it again when its host reboots. Where the kernel has time namespaces,
the host's uptime starts at 0. The pause makes boot times differ in whole seconds, which slurmctld compares."""

BOOT_SHELL = "sh"  # name of the process that runs `BOOT`

ENTER_CGROUPS = """
while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done
shift
exec setsid --fork "$@"
"""
"""Shell script that enters the given cgroups, then runs the command after `--` in a new session, detached, so that
the host keeps running when the program that started it ends."""

UNIFIED = "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"
"""Environment variable that selects the cgroup version that systemd-nspawn gives to a host."""

NETWORK_SETTINGS = {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
"""Environment that lets a host change the settings of its own network namespace, which containers in it need."""

OPTIONS = ("--capability=all", "--drop-capability=CAP_SYS_MODULE,CAP_SYS_RAWIO", "--system-call-filter=@keyring")
"""Options of systemd-nspawn for a host that has this machine's users, so that it can do what a real machine can: mount
network file systems, make devices, limit jobs to some."""

NO_DEVICE = "/dev/null"  # stands for each GPU of a host that may have no devices

AUTOFS = Path("/dev/autofs")  # the kernel's device for automount units

NSPAWN_DIRECTORIES = (Path("/run/systemd/nspawn/propagate"), Path("/run/systemd/nspawn/unix-export"))
"""Directories in which systemd-nspawn keeps a subdirectory per machine. Since version 256 the second one's is a mount,
and systemd-nspawn starts no machine whose mount is still there."""

OWN_CLEANING = 3.0  # seconds for systemd-nspawn to end by itself after its host, and so to remove its mounts and files


def switch_on(host: HostLayout, cgroup_directories: Iterable[Path], spec: LabSpec) -> None:
    """Boot a host whose root and network namespace are ready, without waiting; LabError if it does not start."""
    private = spec.private_users
    subtrees = [cgroups.make(directory, host.name, private=private) for directory in cgroup_directories]
    nspawn = [
        "systemd-nspawn", "--boot", "--quiet", "--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off",
        "--link-journal=no", "--settings=no", f"--directory={host.root}", f"--machine={host.machine}",
        f"--hostname={spec.hostname(host.name)}",
    ]  # fmt: skip
    environment = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}
    _forget(host)
    for path in spec.shared:
        host.shared(path).mkdir(parents=True, exist_ok=True)
    nspawn += [f"--bind={host.shared(path)}:{path}" for path in spec.shared]
    if private:
        tuple(map(private_users.own, map(host.shared, spec.shared)))
        network.set_up(host, private_users.OF_NETWORK)
        # A network namespace that is not of the host's users is entered before it has any.
        inside = private_users.closed([*nspawn, *private_users.OPTIONS], subtrees)
        nspawn = ["nsenter", f"--net=/run/netns/{host.namespace}", *inside]
        count = len(spec.gpu_models.get(host.name, ()))
        nspawn += [f"--bind={NO_DEVICE}:{path}" for path in roots.gpu_files(count)] if count else []
    else:
        nspawn += [f"--network-namespace-path=/run/netns/{host.namespace}", *OPTIONS]
        # systemd looks for it once, before it makes any device, and supports no automount units without it.
        nspawn += [f"--bind={AUTOFS}"] if AUTOFS.exists() else []
        environment |= NETWORK_SETTINGS
    if spec.newer_slurm:
        place = el_repository.newer_slurm(spec, lambda _: None, host.name)
        nspawn.append(f"--bind-ro={place}:{slurm_repository.PLACE}")
    if spec.suite in UNIFIED_SUITES or host.name in spec.unified:
        environment[UNIFIED] = "1"
    with host.console.open("ab") as console:
        done = subprocess.run(
            [*TIED, "sh", "-ec", ENTER_CGROUPS, "sh", *map(str, subtrees), "--", BOOT_SHELL, "-c", BOOT, "power",
             *nspawn],
            stdin=subprocess.DEVNULL, stdout=console, stderr=console, env=environment, check=False,
        )  # fmt: skip
    if done.returncode:
        raise LabError(f"{host.name}: it could not be started: {console_tail(host)}")


def switch_off(
    hosts: Iterable[HostLayout], cgroup_directories: Iterable[Path], remove: bool = False, patience: float = 20.0
) -> None:
    """Kill all processes in these cgroup subtrees, as a power failure would.

    Each host's PID 1 is killed first; the kernel then kills all other processes of the host. Its systemd-nspawn ends by
    itself and removes what it has mounted; one that does not is killed as well. In the other order hosts would keep
    running without their systemd-nspawn. Removing the subtrees proves that nothing is left. Raises LabError if it takes
    long.
    """
    directories = tuple(cgroup_directories)
    began = time.monotonic()
    # A cgroup stays busy for a moment after its last process is no longer listed.
    while (running := cgroups.processes(directories)) or (remove and not all(map(cgroups.remove, directories))):
        waited = time.monotonic() - began
        cgroups.thaw(directories)
        _kill(running if waited > OWN_CLEANING else filter(_keeps_host_on, running))
        if waited > patience:
            some = f"Processes: {sorted(running)[:5]}; cgroups: {directories[0]} and its like."
            raise LabError(
                f"The lab's processes do not end, or its cgroups stay busy. {some} Look with ps, then try again."
            )
        time.sleep(0.02)
    for host in hosts:
        _forget(host)


def _kill(processes: Iterable[int]) -> None:
    """Kill processes; those that have ended meanwhile are passed over."""
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until_off(subtrees: Iterable[Path], host: HostLayout, patience: float = 60.0) -> None:
    """Wait until a host that is shutting down is off; LabError, with its last console output, after `patience`."""
    places = tuple(subtrees)
    deadline = time.monotonic() + patience
    while init_pid(places) is not None:
        if time.monotonic() > deadline:
            raise LabError(f"{host.name}: it does not shut down within {patience:.0f} s: {console_tail(host)}")
        time.sleep(0.05)


def _forget(host: HostLayout) -> None:
    """Unmount and remove what systemd-nspawn leaves of a machine; LabError if a mount stays."""
    for place in (directory / host.machine for directory in NSPAWN_DIRECTORIES):
        mounts.unmount_all(place)
        shutil.rmtree(place, ignore_errors=True)
    if host.root.exists():
        seen = host.root.stat()
        Path(f"/run/systemd/nspawn/locks/inode-{seen.st_dev}:{seen.st_ino}").unlink(missing_ok=True)


def init_pid(subtrees: Iterable[Path]) -> int | None:
    """PID on this machine of the host's PID 1; None if the host is off."""
    # Each hierarchy lists all processes of the host, so the first one is usually enough.
    found = (filter(_is_init, sorted(cgroups.processes([subtree]))) for subtree in subtrees)
    return next(chain.from_iterable(found), None)


def _is_init(pid: int) -> bool:
    """Whether a process is PID 1 of a PID namespace directly below that of this process."""
    return _status(pid, "NSpid")[1:] == ["1"]


def _keeps_host_on(pid: int) -> bool:
    """Whether a host goes on because of a process: its PID 1, or the shell that starts systemd-nspawn again."""
    return _is_init(pid) or (_status(pid, "Name") == [BOOT_SHELL] and len(_status(pid, "NSpid")) == 1)


def _status(pid: int, field: str) -> list[str]:
    """The words of a line of a process's status (proc_pid_status(5)); empty if the process has ended."""
    try:
        # A process gives itself any name, of any bytes; those that end a line are the kernel's alone.
        lines = Path(f"/proc/{pid}/status").read_bytes().split(b"\n")
    except (FileNotFoundError, ProcessLookupError):
        return []
    found = (line.decode(errors="replace").split()[1:] for line in lines if line.startswith(f"{field}:".encode()))
    return next(found, [])


def ssh_state(address: str, timeout: float = 1.0) -> str:
    """Probe port 22: `answers` (SSH banner), `silent` (accepts connections, sends nothing) or `off`."""
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
    """After a timeout: `silent` if port 22 accepts a connection, else `off`."""
    try:
        socket.create_connection((address, 22), timeout).close()
    except OSError:
        return "off"
    return "silent"


def wait(
    wanted: Mapping[HostLayout, tuple[str, str]], cgroup_directories: Iterable[Path], patience: float = 90.0
) -> Iterable[HostLayout]:
    """Yield hosts once they have their wanted `ssh_state` at their address; within `patience` seconds in total.

    Raises LabError, with the last console output, if one was not in time, or is off.
    """
    directories = tuple(cgroup_directories)
    left = dict(wanted)
    deadline = time.monotonic() + patience
    while left:
        for host, (address, state) in sorted(left.items(), key=lambda item: item[0].name):
            if ssh_state(address, 0.5) == state:
                del left[host]
                yield host
            elif not any((directory / host.name / "cgroup.procs").read_text() for directory in directories):
                raise LabError(f"{host.name}: its systemd-nspawn has ended: {console_tail(host)}")
        if left and time.monotonic() > deadline:
            host = next(iter(left))
            raise LabError(f"{host.name}: it does not answer on SSH after {patience:.0f} s: {console_tail(host)}")
        time.sleep(0.05)
    outnumber()


def console_tail(host: HostLayout) -> str:
    """The last three lines of a host's console output, on one line."""
    text = host.console.read_text(errors="replace") if host.console.exists() else ""
    return " / ".join(text.strip().splitlines()[-3:]) or "it printed nothing"
