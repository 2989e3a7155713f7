"""Starting and removing labs, and operations on single hosts for tests."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

from slurmfab.base.errors import InputError, LabError
from slurmfab.lab import (
    base,
    cgroups,
    clusterfile,
    disks,
    el_repository,
    machine,
    mounts,
    needs,
    network,
    power,
    private_users,
    roots,
    state,
    ubuntu_like,
)
from slurmfab.lab.command import remove_tree, require_machine, run_bounded
from slurmfab.lab.disks import Disks
from slurmfab.lab.layout import LABS, LabLayout
from slurmfab.lab.spec import CONTROLLER, Lab, LabHost, LabSpec
from slurmfab.lab.state import LabState

__all__ = ["down", "keep_disks", "kill_host", "load", "names", "plug_in_host", "reinstall_host", "run", "start_host"]
__all__ += ["status", "unplug_host", "up"]

ENTER = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd")
"""Options of nsenter for `run`: enter the host's namespaces, root directory and working directory."""

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Search path for programs that `run` starts on a host."""

BOOT_SECONDS = 180  # how long cloud-init may take on a look-alike of Ubuntu
RUN_SECONDS = 400  # time limit of a command that `run` runs on a host


def up(
    spec: LabSpec,
    directory: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
    output: Path | None = None,
    *,
    copied: str = "",
    bare: Container[str] = (),
) -> Lab:
    """Start a lab; returns when each switched-on host has the expected state on port 22.

    Leftovers of an interrupted `up` are removed first, and everything if the start fails. `directory`: of the cluster
    file, unless `output` is its path. `copied`: kept disks to start from, with the addresses, keys, users and packages
    of the original; hosts in `bare`, or without such a disk, get none. Raises InputError of those files or disks;
    LabError if the machine cannot run this lab.
    """
    require_machine()
    cluster_file = (output or (directory or Path("configs")) / f"lab-{spec.name}.yaml").absolute()
    clusterfile.require_ours(cluster_file)
    origin = disks.for_lab(copied, spec, bare) if copied else None
    # Another lab on this machine shows that it can have one.
    if not names():
        needs.require()
        tuple(map(progress, needs.remarks()))
    if spec.like and not spec.private_users and (other := needs.of_others(needs.FIRST_UID)):
        progress(
            f"{other} of this machine has the UID of the lab's user ({needs.FIRST_UID}), and may become root of its "
            "hosts, and so of this machine, while it is up."
        )
    needs.ensure_room(progress)
    tree = Path(origin.base) if origin else base.ensure(spec.suite, progress)
    if spec.newer_slurm:
        for host in {kind: host for host, kind in spec.kinds.items()}.values():
            el_repository.newer_slurm(spec, progress, host)
    _put_up(spec, tree, cluster_file, origin, progress)
    return load(spec.name)


def _put_up(
    spec: LabSpec, tree: Path, cluster_file: Path, origin: Disks | None, progress: Callable[[str], None]
) -> None:
    """Remove leftovers of a lab of this name and start it; remove everything again if that fails."""
    layout = LabLayout(spec.name)
    with state.locked(layout.directory):
        before = state.read(spec.name)
        if before and _is_up(before):
            raise LabError(f"Lab {spec.name} is up already. Try lab-down --name {spec.name} first.")
        _remove_things(spec.name, before)
        try:
            _start(_remember(spec, tree, cluster_file, origin), origin, progress)
        except BaseException:
            _remove_things(spec.name, state.read(spec.name))
            remove_tree(layout.directory)
            _restore_machine()
            raise


def _remember(spec: LabSpec, tree: Path, cluster_file: Path, origin: Disks | None) -> LabState:
    """Choose a network and write the lab's state, before anything else is made."""
    layout = LabLayout(spec.name)
    layout.directory.chmod(0o700)
    with state.locked(LABS):
        taken = network.networks_in_use()
        if origin:
            chosen = network.require_free(origin.network, taken)
        else:
            chosen = network.choose_network(spec.name, (*taken, *disks.networks()))
        groups = tuple(map(str, cgroups.lab_directories(layout)))
        name = origin.name if origin else ""
        remembered = LabState(spec, str(chosen), str(tree), groups, str(cluster_file), disks=name)
        state.write(remembered)
        machine.prepare()
    return remembered


def _start(remembered: LabState, origin: Disks | None, progress: Callable[[str], None]) -> None:
    """Make the network, keys, hosts and cluster file of a lab, and wait until its hosts are up."""
    spec, layout = remembered.spec, remembered.layout
    if origin:
        disks.hand_out(origin, layout)
    _install_packages(remembered, origin.layers if origin else (), progress)
    network.make_network(layout, IPv4Network(remembered.network), ipv6=bool(spec.ipv6 or spec.dual))
    roots.make_keys(layout, spec.host_names)
    if spec.sudo_password:
        roots.make_sudo_password(layout)
    on = tuple(host for host in spec.host_names if host not in spec.down)
    with ThreadPoolExecutor() as pool:
        tuple(pool.map(lambda host: roots.make_host_keys(layout.host(host)), spec.host_names))
        tuple(pool.map(lambda host: roots.prepare(remembered, host, _all_addresses(remembered)[host]), on))
    _write_ssh_config(remembered)
    hosts = tuple(_look(remembered, host, ask=False) for host in spec.host_names)
    clusterfile.write(
        Path(remembered.cluster_file),
        clusterfile.render(spec, _addresses(remembered), layout.ssh_key),
        clusterfile.render_lock(hosts),
    )
    _switch_on(remembered, on, progress)
    state.write(replace(remembered, phase="up"))


def _install_packages(remembered: LabState, copies: Container[str], progress: Callable[[str], None]) -> None:
    """Write the `layers` file of each host that has more than the base tree; copies of kept disks have their own."""
    for name in remembered.spec.host_names:
        if name not in copies:
            _write_layers(remembered, name, remembered.spec.packages_of.get(name, ()), progress)


def _write_layers(remembered: LabState, name: str, packages: tuple[str, ...], progress: Callable[[str], None]) -> None:
    """Write which directories a host has above the base tree: its packages, and the source of Slurm's packages."""
    tree, like = Path(remembered.base), remembered.spec.like
    if like:
        trees: tuple[Path, ...] = (base.like_ubuntu(tree, like, progress), tree)
    else:
        trees = base.with_slurm(tree, remembered.spec.kinds[name], progress)
    layers = [*([base.with_packages(trees, packages, progress)] if packages else ()), *trees[:-1]]
    if layers:
        host = remembered.layout.host(name)
        host.directory.mkdir(parents=True, exist_ok=True)
        host.layers.write_text("\n".join(map(str, layers)))


def _switch_on(remembered: LabState, hosts: Iterable[str], progress: Callable[[str], None]) -> None:
    """Connect hosts to the network, boot them, and wait until each has the expected state on port 22."""
    layout, spec, wanted = remembered.layout, remembered.spec, {}
    begun = time.time()
    for name in hosts:
        host, address = layout.host(name), _addresses(remembered)[name]
        network.plug_in(host, _all_addresses(remembered)[name], IPv4Network(remembered.network), spec.offline)
        power.switch_on(host, map(Path, remembered.cgroups), spec)
        wanted[host] = (address, "silent" if name in spec.hanging else "answers")
    for host in power.wait(wanted, map(Path, remembered.cgroups)):
        progress(f"{host.name} ({wanted[host][0]}): {wanted[host][1]} on SSH")
    # cloud-init restarts sshd, and ends what has just connected.
    while spec.like and not all(ubuntu_like.has_booted(host.root, begun) for host in wanted):
        if time.time() > begun + BOOT_SECONDS:
            raise LabError(f"cloud-init has not ended on the hosts of lab {spec.name} within {BOOT_SECONDS} s.")
        time.sleep(0.2)


def _write_ssh_config(remembered: LabState) -> None:
    """Write ssh_config and known_hosts, so that `ssh -F` reaches the hosts by name."""
    layout = remembered.layout
    lines, known = [], []
    for name, address in _addresses(remembered).items():
        lines += [f"Host {name}", f"  HostName {address}"]
        every = ",".join(_all_addresses(remembered)[name])
        known += [f"{every} {kind} {key}" for kind, key in roots.host_keys(layout.host(name)).items()]
    lines += ["Host *", f"  User {remembered.spec.ssh_user}", f"  IdentityFile {layout.ssh_key}"]
    lines += ["  IdentitiesOnly yes", f"  UserKnownHostsFile {layout.known_hosts}"]
    layout.ssh_config.write_text("\n".join(lines) + "\n")
    layout.known_hosts.write_text("\n".join(known) + "\n")


def down(name: str) -> bool:
    """Remove a lab and all that was made for it; returns whether there was one.

    InputError for its name, LabError if busy or stuck.
    """
    layout = LabLayout(LabSpec(name=name).name)
    require_machine()
    with state.locked(layout.directory, make=False):
        was_there = layout.directory.is_dir()
        _remove_things(name, state.read(name))
        remove_tree(layout.directory)
    base.remove_half_built()
    _restore_machine()
    return was_there


def keep_disks(lab: Lab, name: str) -> None:
    """Shut down all hosts of a lab and remove it, but keep its disks, from which `up` can start new labs.

    `name`: name for the kept disks; earlier ones of this name are replaced. Raises InputError if kept disks of this
    name are in use. Raises LabError if a host did not shut down, or the lab is gone.
    """
    remembered = _state_of(lab)
    disks.remove(name)
    layout = remembered.layout
    on = [host.name for host in lab.hosts if _look(remembered, host.name, ask=False).pid is not None]
    for host in on:
        run(lab, host, ["systemctl", "--no-block", "poweroff"])
    for host in on:
        power.wait_until_off(_subtrees(remembered, host), layout.host(host))
    with state.locked(layout.directory):
        mounts.unmount_all(layout.directory)
        disks.take(remembered, name)
    down(lab.name)


def _remove_things(name: str, remembered: LabState | None) -> None:
    """Remove everything of a lab except its directory and state file; the lock is held on that directory."""
    layout = LabLayout(name)
    # Without a state, nothing was made yet or everything is removed; trying again costs little.
    groups = tuple(map(Path, remembered.cgroups)) if remembered else cgroups.lab_directories(layout)
    hosts = remembered.spec.host_names if remembered else ()
    power.switch_off(tuple(map(layout.host, hosts)), groups, remove=True)
    network.remove_network(layout, remembered.network if remembered else "")
    mounts.unmount_all(layout.directory)
    if remembered:
        clusterfile.remove(Path(remembered.cluster_file))
    for entry in layout.directory.iterdir() if layout.directory.is_dir() else ():
        # The caller removes the state last, with the directory, so that an interrupted `down` can be repeated.
        if entry.is_dir():
            remove_tree(entry)
        elif entry != layout.state:
            entry.unlink()


def _restore_machine() -> None:
    """Restore this machine's settings if no lab is left."""
    with state.locked(LABS, make=False):
        if not names():
            machine.restore()


def names() -> tuple[str, ...]:
    """Names of all labs on this machine, including incomplete ones; LabError without root or lab packages."""
    require_machine()
    return state.names()


def status(name: str = "") -> tuple[LabHost, ...]:
    """The state of the hosts of a lab, or of all (empty name); LabError without root or lab packages."""
    require_machine()
    found = (state.read(one) for one in ((name,) if name else names()))
    return tuple(_look(lab, host) for lab in found if lab for host in lab.spec.host_names)


def load(name: str) -> Lab:
    """Load a lab that is up, without probing its hosts (`state` stays `off`).

    InputError if it is not up; LabError without root or lab packages.
    """
    LabSpec(name=name)  # refuses what no lab is called
    require_machine()
    remembered = state.read(name)
    if remembered is None or not _is_up(remembered):
        raise InputError(f"There is no lab {name} that is up (known: {' '.join(names()) or 'none'}). Try lab-up.")
    hosts = tuple(_look(remembered, host, ask=False) for host in remembered.spec.host_names)
    layout, spec = remembered.layout, remembered.spec
    return Lab(name, spec.suite, hosts, layout.directory, layout.ssh_key, Path(remembered.cluster_file), spec)


def run(lab: Lab, host: str, argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as root without SSH, to break hosts; InputError for no host, LabError if off or late."""
    pid = _look(_state_of(lab), lab.host(host).name, ask=False).pid
    if pid is None:
        raise LabError(f"{host}: the host is switched off.")
    command = ["env", "-i", PATH, "HOME=/root", "LANG=C.UTF-8", *argv]
    if lab.spec.private_users:
        # Who enters such a host from here has more rights than its root, and lends them to what it runs there.
        command = private_users.asking(pid, command)
    else:
        more = ["--time"] if power.TIME_NAMESPACE.exists() else []
        command = ["nsenter", "--target", str(pid), *ENTER, *more, *command]
    try:
        done = run_bounded(command, text, RUN_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{host}: `{' '.join(argv)[:300]}` does not end within {RUN_SECONDS} s.") from error
    if lab.spec.private_users and done.returncode and done.stderr.startswith(private_users.NOT_ASKED):
        raise LabError(f"{host}: {done.stderr.strip()}")
    return done


def kill_host(lab: Lab, host: str) -> None:
    """Cut a host's power and network; afterwards it neither answers nor refuses connections."""
    remembered = _state_of(lab)
    layout = remembered.layout.host(lab.host(host).name)
    with state.locked(remembered.layout.directory):
        network.unplug(layout)
        power.switch_off([layout], _subtrees(remembered, host))


def start_host(lab: Lab, host: str) -> None:
    """Switch on a host, unless it is on, with the files that it had; returns when it answers."""
    remembered = _state_of(lab)
    name = lab.host(host).name
    with state.locked(remembered.layout.directory):
        if _look(remembered, name, ask=False).pid is None:
            roots.prepare(remembered, name, _all_addresses(remembered)[name])
            _switch_on(remembered, (name,), lambda _: None)


def reinstall_host(lab: Lab, host: str) -> Lab:
    """Kill a host, remove its disk, and boot a new bare system with new SSH host keys at the same address."""
    kill_host(lab, host)
    remembered = _state_of(lab)
    layout = remembered.layout.host(host)
    mounts.unmount_all(layout.directory)
    tuple(map(remove_tree, (layout.directory, layout.keys)))
    roots.make_keys(remembered.layout, (host,))
    roots.make_host_keys(layout)
    _write_layers(remembered, host, (), lambda _: None)
    _write_ssh_config(remembered)
    start_host(lab, host)
    return load(lab.name)


def unplug_host(lab: Lab, host: str) -> None:
    """Cut a host's network; the host keeps running."""
    network.unplug(_state_of(lab).layout.host(lab.host(host).name))


def plug_in_host(lab: Lab, host: str) -> None:
    """Reconnect the network of a host that was unplugged."""
    remembered = _state_of(lab)
    layout, places = remembered.layout.host(lab.host(host).name), _all_addresses(remembered)[host]
    network.plug_in(layout, places, IPv4Network(remembered.network), remembered.spec.offline)


def _is_up(remembered: LabState) -> bool:
    """Whether the lab was started completely and its bridge exists; a reboot of this machine removes the bridge."""
    return remembered.phase == "up" and network.has_bridge(remembered.layout)


def _state_of(lab: Lab) -> LabState:
    """The state of a lab on disk; raises LabError if the lab is gone."""
    remembered = state.read(lab.name)
    if remembered is None:
        raise LabError(f"Lab {lab.name} is gone. Start it again: lab-up --name {lab.name}.")
    return remembered


def _look(remembered: LabState, name: str, ask: bool = True) -> LabHost:
    """Current data of one host; its port 22 is probed only if `ask` is true."""
    host, places = remembered.layout.host(name), _all_addresses(remembered)[name]
    pid = power.init_pid(_subtrees(remembered, name))
    seen = power.ssh_state(places[0]) if ask and pid else "off"
    role = "controller" if name == CONTROLLER else "compute"
    ipv6 = next((place for place in places if ":" in place), "")
    return LabHost(remembered.spec.name, name, places[0], role, roots.host_keys(host), pid, seen, ipv6)


def _subtrees(remembered: LabState, host: str) -> tuple[Path, ...]:
    """A host's subtree in each cgroup hierarchy."""
    return tuple(Path(directory, host) for directory in remembered.cgroups)


def _addresses(remembered: LabState) -> dict[str, str]:
    """Host name to the address in the cluster file."""
    return {name: places[0] for name, places in _all_addresses(remembered).items()}


def _all_addresses(remembered: LabState) -> dict[str, tuple[str, ...]]:
    """Host name to all addresses."""
    spec = remembered.spec
    return network.host_addresses(IPv4Network(remembered.network), spec.host_names, spec.ipv6, spec.dual)
