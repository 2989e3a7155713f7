"""The life of a lab: up, down, and what tests do to single hosts in between."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

from slurmfab.errors import InputError, LabError
from slurmfab.lab import addresses, base, cgroups, clusterfile, machine, mounts, network, power, roots, state
from slurmfab.lab.command import require_machine
from slurmfab.lab.layout import LABS, LabLayout
from slurmfab.lab.spec import CONTROLLER, Lab, LabHost, LabSpec
from slurmfab.lab.state import LabState, names

__all__ = ["down", "kill_host", "load", "names", "plug_in_host", "reinstall_host", "run", "start_host"]
__all__ += ["status", "unplug_host", "up"]

ENTER = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd")
"""What `run` shares with the host: everything."""

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Search path inside a host."""


def up(
    spec: LabSpec,
    directory: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
    output: Path | None = None,
) -> Lab:
    """Start a lab; returns when every host that shall answer on SSH does.

    What a killed `up` has left of a lab with this name is removed first. When starting fails, nothing is left either.

    Args:
        spec: what the lab shall be.
        directory: where the cluster file `lab-NAME.yaml` goes, with its lock beside it; `configs` by default.
        progress: told in one line what goes on.
        output: the cluster file, when it shall have another name or place.

    Raises:
        InputError: the cluster file is there and is no lab's.
        LabError: the machine cannot have this lab; the text says why.
    """
    require_machine()
    cluster_file = (output or (directory or Path("configs")) / f"lab-{spec.name}.yaml").absolute()
    clusterfile.require_ours(cluster_file)
    tree = base.ensure(spec.suite, progress)
    layout = LabLayout(spec.name)
    with state.locked(layout.directory):
        before = state.read(spec.name)
        if before and _is_up(before):
            raise LabError(f"Lab {spec.name} is up already. Try lab-down --name {spec.name} first.")
        _remove_things(spec.name, before)
        try:
            remembered = _remember(spec, tree, cluster_file)
            _start(remembered, progress)
        except BaseException:
            _remove_things(spec.name, state.read(spec.name))
            shutil.rmtree(layout.directory)
            _restore_machine()
            raise
    return load(spec.name)


def _remember(spec: LabSpec, tree: Path, cluster_file: Path) -> LabState:
    """Choose an address range and write the state, before anything is made."""
    layout = LabLayout(spec.name)
    layout.directory.chmod(0o700)
    with state.locked(LABS):
        chosen = addresses.choose_network(spec.name, network.networks_in_use())
        groups = tuple(map(str, cgroups.lab_directories(layout)))
        remembered = LabState(spec, str(chosen), str(tree), groups, str(cluster_file))
        state.write(remembered)
        machine.prepare()
    return remembered


def _start(remembered: LabState, progress: Callable[[str], None]) -> None:
    """Make everything of a lab, all hosts at once, and wait until they answer."""
    spec, layout = remembered.spec, remembered.layout
    network.make_network(layout, IPv4Network(remembered.network))
    roots.make_keys(layout, spec.host_names)
    if spec.sudo_password:
        roots.make_sudo_password(layout)
    on = tuple(host for host in spec.host_names if host not in spec.down)
    with ThreadPoolExecutor() as pool:
        tuple(pool.map(lambda host: roots.make_host_keys(layout.host(host)), spec.host_names))
        tuple(pool.map(lambda host: roots.prepare(remembered, host, _address(remembered, host)), on))
    _write_ssh_config(remembered)
    hosts = tuple(_look(remembered, host, ask=False) for host in spec.host_names)
    clusterfile.write(
        Path(remembered.cluster_file),
        clusterfile.render(spec, _addresses(remembered), layout.ssh_key),
        clusterfile.render_lock(hosts),
    )
    _switch_on(remembered, on, progress)
    state.write(replace(remembered, phase="up"))


def _switch_on(remembered: LabState, hosts: Iterable[str], progress: Callable[[str], None]) -> None:
    """Plug hosts in, boot them, and wait until each does on SSH what it shall."""
    layout, spec, wanted = remembered.layout, remembered.spec, {}
    for name in hosts:
        host, address = layout.host(name), _address(remembered, name)
        network.plug_in(host, address, IPv4Network(remembered.network), spec.offline)
        power.switch_on(host, map(Path, remembered.cgroups), spec)
        wanted[host] = (address, "silent" if name in spec.hanging else "answers")
    for host in power.wait(wanted):
        progress(f"{host.name} ({wanted[host][0]}): {wanted[host][1]} on SSH")


def _write_ssh_config(remembered: LabState) -> None:
    """Write what `ssh -F` needs to reach the hosts by name."""
    layout = remembered.layout
    lines, known = [], []
    for name, address in _addresses(remembered).items():
        lines += [f"Host {name}", f"  HostName {address}"]
        known += [f"{address} {kind} {key}" for kind, key in roots.host_keys(layout.host(name)).items()]
    lines += ["Host *", f"  User {remembered.spec.ssh_user}", f"  IdentityFile {layout.ssh_key}"]
    lines += ["  IdentitiesOnly yes", f"  UserKnownHostsFile {layout.known_hosts}"]
    layout.ssh_config.write_text("\n".join(lines) + "\n")
    layout.known_hosts.write_text("\n".join(known) + "\n")


def down(name: str) -> None:
    """Remove a lab and everything that was made for it, also when its `up` was killed; no lab is no error.

    Raises:
        LabError: something cannot be removed, or another process is starting this lab.
    """
    require_machine()
    layout = LabLayout(LabSpec(name=name).name)
    with state.locked(layout.directory, make=False):
        _remove_things(name, state.read(name))
        if layout.directory.is_dir():
            shutil.rmtree(layout.directory)
    base.remove_half_built()
    _restore_machine()


def _remove_things(name: str, remembered: LabState | None) -> None:
    """Remove all of a lab but its directory's own existence, which is what its lock hangs on."""
    layout = LabLayout(name)
    # Without a state nothing was made yet, or everything is gone; looking again costs nothing.
    groups = tuple(map(Path, remembered.cgroups)) if remembered else cgroups.lab_directories(layout)
    hosts = remembered.spec.host_names if remembered else ()
    power.switch_off(tuple(map(layout.host, hosts)), groups, remove=True)
    network.remove_network(layout, remembered.network if remembered else "")
    mounts.unmount_all(layout.directory)
    if remembered:
        clusterfile.remove(Path(remembered.cluster_file))
    for entry in layout.directory.iterdir() if layout.directory.is_dir() else ():
        # The state goes last of all, with the directory: a `down` that is killed here can be done again.
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry != layout.state:
            entry.unlink()


def _restore_machine() -> None:
    """Give this machine its settings back when no lab is left."""
    with state.locked(LABS, make=False):
        if not names():
            machine.restore()


def status(name: str = "") -> tuple[LabHost, ...]:
    """How the hosts of one lab, or of all labs, are at this moment.

    Raises:
        LabError: not root, so nothing can be seen.
    """
    require_machine()
    found = (state.read(one) for one in ((name,) if name else names()))
    return tuple(_look(lab, host) for lab in found if lab for host in lab.spec.host_names)


def load(name: str) -> Lab:
    """The lab of that name, as it is now.

    Raises:
        InputError: there is no such lab, or it is not up.
    """
    remembered = state.read(name)
    if remembered is None or not _is_up(remembered):
        raise InputError(f"There is no lab {name} that is up (known: {' '.join(names()) or 'none'}). Try lab-up.")
    hosts = tuple(_look(remembered, host, ask=False) for host in remembered.spec.host_names)
    layout, spec = remembered.layout, remembered.spec
    return Lab(name, spec.suite, hosts, layout.directory, layout.ssh_key, Path(remembered.cluster_file), spec)


def run(lab: Lab, host: str, argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command inside a host as root without SSH: for tests that break things, and look at them.

    Args:
        lab: the lab.
        host: the host's name.
        argv: program and arguments.
        text: what the program reads from standard input.

    Raises:
        LabError: the host is switched off.
    """
    pid = _look(_state_of(lab), lab.host(host).name, ask=False).pid
    if pid is None:
        raise LabError(f"{host}: the host is switched off.")
    clock = ("--time",) if power.TIME_NAMESPACE.exists() else ()
    command = ["nsenter", "--target", str(pid), *ENTER, *clock, "env", "-i", PATH, "HOME=/root", "LANG=C.UTF-8", *argv]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def kill_host(lab: Lab, host: str) -> None:
    """Cut a host's power and its network: it neither answers nor refuses, it is gone."""
    remembered = _state_of(lab)
    layout = remembered.layout.host(lab.host(host).name)
    with state.locked(remembered.layout.directory):
        network.unplug(layout)
        power.switch_off([layout], _subtrees(remembered, host))


def start_host(lab: Lab, host: str) -> None:
    """Switch on a host that was killed, or was down from the start; returns when it answers.

    Its files are as it left them.
    """
    remembered = _state_of(lab)
    name = lab.host(host).name
    with state.locked(remembered.layout.directory):
        if _look(remembered, name, ask=False).pid is None:
            roots.prepare(remembered, name, _address(remembered, name))
            _switch_on(remembered, (name,), lambda _: None)


def reinstall_host(lab: Lab, host: str) -> Lab:
    """Cut a host's power, throw its disk away, and boot a new system with other SSH host keys at the same address."""
    kill_host(lab, host)
    remembered = _state_of(lab)
    layout = remembered.layout.host(host)
    mounts.unmount_all(layout.directory)
    tuple(map(shutil.rmtree, (layout.directory, layout.keys)))
    roots.make_keys(remembered.layout, (host,))
    roots.make_host_keys(layout)
    _write_ssh_config(remembered)
    start_host(lab, host)
    return load(lab.name)


def unplug_host(lab: Lab, host: str) -> None:
    """Cut a host's network; it runs on, and nobody hears of it."""
    network.unplug(_state_of(lab).layout.host(lab.host(host).name))


def plug_in_host(lab: Lab, host: str) -> None:
    """Give a host that was unplugged its network back."""
    remembered = _state_of(lab)
    layout, address = remembered.layout.host(lab.host(host).name), _address(remembered, host)
    network.plug_in(layout, address, IPv4Network(remembered.network), remembered.spec.offline)


def _is_up(remembered: LabState) -> bool:
    """Whether the lab was started to the end, and this machine was not started anew since."""
    return remembered.phase == "up" and network.has_bridge(remembered.layout)


def _state_of(lab: Lab) -> LabState:
    """What is remembered about a lab that somebody holds."""
    remembered = state.read(lab.name)
    if remembered is None:
        raise LabError(f"Lab {lab.name} is gone.")
    return remembered


def _look(remembered: LabState, name: str, ask: bool = True) -> LabHost:
    """One host as it is now; `ask` says whether to try its SSH port too."""
    host, address = remembered.layout.host(name), _address(remembered, name)
    pid = power.init_pid(_subtrees(remembered, name))
    seen = power.ssh_state(address) if ask and pid else "off"
    role = "controller" if name == CONTROLLER else "compute"
    return LabHost(remembered.spec.name, name, address, role, roots.host_keys(host), pid, seen)


def _subtrees(remembered: LabState, host: str) -> tuple[Path, ...]:
    """The host's subtree in each cgroup hierarchy."""
    return tuple(Path(directory, host) for directory in remembered.cgroups)


def _addresses(remembered: LabState) -> dict[str, str]:
    """Host name to address."""
    return addresses.host_addresses(IPv4Network(remembered.network), remembered.spec.host_names)


def _address(remembered: LabState, host: str) -> str:
    """Address of one host."""
    return _addresses(remembered)[host]
