"""Root file systems of hosts: an overlay on the base tree, with the host's own name, keys and stand-ins."""

from __future__ import annotations

import itertools
import json
import secrets
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import disks, mounts, needs, private_users, slurm_repository, ubuntu_like
from slurmfab.lab.command import CONTAINED, call
from slurmfab.lab.layout import HostLayout, LabLayout
from slurmfab.lab.network import gateway, resolver_text
from slurmfab.lab.spec import LabSpec
from slurmfab.lab.state import LabState

SHIPPED = Path(__file__).parent / "shipped"

ON_GPU_HOSTS = {
    "nvidia-smi": "usr/bin/nvidia-smi",
    "all_reduce_perf": "usr/bin/all_reduce_perf",
    "nccl-table": "etc/slurmfab-lab/nccl-table",
}
"""The place of each shipped file on hosts with GPUs."""

FOR_COMMANDS = {
    "lab-run": "etc/slurmfab-lab/run",
    "lab-run.socket": "etc/systemd/system/lab-run.socket",
    "lab-run@.service": "etc/systemd/system/lab-run@.service",
}
"""The place of each shipped file by which hosts with users of their own run commands for this machine."""

NVIDIA_MAJOR = 195  # major device number of NVIDIA's driver (Linux, Documentation/admin-guide/devices.txt)


def gpu_files(count: int) -> dict[str, int]:
    """The device files of `count` GPUs, each with its minor device number."""
    return {**{f"/dev/nvidia{number}": number for number in range(count)}, "/dev/nvidiactl": 255}


def gpu_devices(count: int) -> str:
    """Lines for tmpfiles.d(5) that make the device files of `count` GPUs at every boot."""
    return "".join(f"c {path} 0666 root root - {NVIDIA_MAJOR}:{number}\n" for path, number in gpu_files(count).items())


def gpu_models(models: Iterable[str]) -> str:
    """Text of /etc/lab-gpus, which the stand-in nvidia-smi reads: per GPU its device file's number and its model."""
    return "".join(f"{number} {model}\n" for number, model in enumerate(models))


KEY_TYPES = {"ed25519": (), "ecdsa": (), "rsa": ("-b", "2048")}
"""Types of SSH host keys with options for ssh-keygen; RSA keys are small because generating large ones is slow."""

INSIDE = (*CONTAINED, "chroot")
"""Command prefix that runs a program in a root file system that is not booted; the root directory follows."""

PURGE_PYTHON = (
    "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'python3*' 'libpython3*' "
    "| sed -n 's/^ii  *//p' | DEBIAN_FRONTEND=noninteractive xargs dpkg --purge"
)
"""Shell command that removes Python with dpkg, so that the package manager can install it again."""


NO_GENERATORS = (
    "systemd-cryptsetup systemd-debug systemd-getty systemd-gpt-auto systemd-hibernate-resume systemd-integritysetup "
    "systemd-rc-local systemd-run systemd-ssh systemd-system-update systemd-tpm2 systemd-veritysetup"
)
"""Generators of systemd that find nothing on a lab host; masked, because each runs at every boot and daemon-reload."""

MESSAGE_SCRIPTS = "etc/update-motd.d"
"""Scripts that make the message of the day; left out, because each SSH login would start five programs for them."""


def make_keys(lab: LabLayout, hosts: tuple[str, ...]) -> None:
    """Make the lab's login key, and directories for the hosts' SSH keys; existing ones stay."""
    if not lab.ssh_key.exists():
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {lab.lab}", "-f", str(lab.ssh_key)])
    for host in hosts:
        lab.host(host).keys.mkdir(parents=True, exist_ok=True)


def make_host_keys(host: HostLayout) -> None:
    """Make the SSH host keys of one host; existing keys stay."""
    for kind, options in KEY_TYPES.items():
        file = host.keys / f"ssh_host_{kind}_key"
        if not file.with_suffix(".pub").exists():
            file.unlink(missing_ok=True)
            call(["ssh-keygen", "-q", "-t", kind, *options, "-N", "", "-C", f"root@{host.name}", "-f", str(file)])


def host_keys(host: HostLayout) -> Mapping[str, str]:
    """Public SSH host keys of one host: type, such as `ssh-ed25519`, to base64."""
    files = sorted(host.keys.glob("*.pub"))
    return {fields[0]: fields[1] for fields in (file.read_text().split() for file in files) if len(fields) > 1}


def prepare(state: LabState, name: str, addresses: Iterable[str]) -> None:
    """Mount a host's root, and fill it on first use with its addresses, IPv4 or IPv6; changes in it are kept."""
    host = state.layout.host(name)
    fresh = not (host.directory / "prepared").exists()
    layers = (*disks.layers_of(host), state.base)
    for directory in (host.directory / "upper", host.directory / "work", host.root):
        directory.mkdir(parents=True, exist_ok=True)
    if fresh:
        _mount(layers, host)
        # A copy keeps the names, SSH keys and users of the host that its disk was kept from.
        if not disks.is_copy(host):
            _mask_generators(host)
            shutil.rmtree(host.root / MESSAGE_SCRIPTS)
            _identify(state.spec, host, addresses)
            if state.spec.like:
                is_routed = name not in state.spec.offline
                ubuntu_like.seed(
                    host.root,
                    state.spec.hostname(name),
                    state.layout.ssh_key.with_suffix(".pub").read_text(),
                    like=ubuntu_like.LIKES[state.spec.like],
                    addresses=addresses,
                    gateway=str(gateway(IPv4Network(state.network))) if is_routed else "",
                    resolver=resolver_text(),
                    password=state.layout.sudo_password.read_text().strip() if state.spec.sudo_password else "",
                    is_bare=name == state.spec.host_names[-1],
                )
            else:
                _let_in(state, host)
        # Of hosts with users of their own, systemd-nspawn may not make them.
        places = (*state.spec.shared, *([slurm_repository.PLACE] if state.spec.newer_slurm else ()))
        _equip(state.spec, host, places if state.spec.private_users else ())
        (host.directory / "prepared").touch()
        if state.spec.private_users:
            mounts.unmount_all(host.root)
    if host.root not in mounts.mount_points():
        if state.spec.private_users:
            call(private_users.mounting(layers, host.directory, host.root, host.machine))
        else:
            _mount(layers, host)


def _mount(layers: Sequence[str], host: HostLayout) -> None:
    """Mount the overlay on these lower directories, topmost first, unless it is mounted."""
    if host.root not in mounts.mount_points():
        options = f"lowerdir={':'.join(layers)},upperdir={host.directory}/upper,workdir={host.directory}/work"
        call(["mount", "-t", "overlay", host.machine, "-o", options, str(host.root)])


def _mask_generators(host: HostLayout) -> None:
    """Mask systemd's generators that find nothing on a lab host (systemd.generator(7))."""
    place = host.root / "etc/systemd/system-generators"
    place.mkdir(exist_ok=True)
    for name in NO_GENERATORS.split():
        (place / f"{name}-generator").symlink_to("/dev/null")


def _identify(spec: LabSpec, host: HostLayout, addresses: Iterable[str]) -> None:
    """Write the host's name, hosts file, machine ID, resolver configuration and SSH host keys."""
    etc, name = host.root / "etc", spec.hostname(host.name)
    own = "".join(f"{one} {name}\n" for one in (["127.0.1.1"] if spec.loopback_name else addresses))
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{own}")
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (etc / "resolv.conf").unlink(missing_ok=True)
    (etc / "resolv.conf").write_text(resolver_text())
    for key in host.keys.iterdir():
        shutil.copy(key, etc / "ssh")


def _let_in(state: LabState, host: HostLayout) -> None:
    """Allow logins with the lab's key, as root or as a new user with sudo."""
    user, home = state.spec.ssh_user, host.root / "root"
    if user != "root":
        uid = next(uid for uid in itertools.count(needs.FIRST_UID) if not needs.of_others(uid))
        call([*INSIDE, str(host.root), "useradd", "--uid", str(uid), "--create-home", "--shell", "/bin/bash", user])
        home = host.root / "home" / user
        asks = state.spec.sudo_password
        if asks:
            call([*INSIDE, str(host.root), "chpasswd"], f"{user}:{state.layout.sudo_password.read_text().strip()}\n")
        rule = host.root / "etc/sudoers.d/lab"
        rule.write_text(f"{user} ALL=(ALL:ALL) {'' if asks else 'NOPASSWD: '}ALL\n")
        rule.chmod(0o440)
    directory = home / ".ssh"
    directory.mkdir(mode=0o700, exist_ok=True)
    keys = directory / "authorized_keys"
    keys.write_text(state.layout.ssh_key.with_suffix(".pub").read_text())
    keys.chmod(0o600)
    if user != "root":
        call([*INSIDE, str(host.root), "chown", "--recursive", f"{user}:", f"/home/{user}/.ssh"])


def make_sudo_password(lab: LabLayout) -> None:
    """Write a random sudo password to a file that only root can read."""
    lab.sudo_password.touch(mode=0o600)
    lab.sudo_password.write_text(f"{secrets.token_urlsafe(12)}\n")


def _equip(spec: LabSpec, host: HostLayout, folders: Iterable[str]) -> None:
    """Add the stand-ins that the lab's specification asks for, and folders; remove what it says is missing.

    A kept disk has what a host has put there, so no path in it is followed out of it. Raises LabError if programs of
    one whose root is nobody here would run as root of this machine.
    """
    if host.name in spec.no_python:
        if spec.private_users and disks.is_copy(host):
            raise LabError(f"{host.name}: Python cannot be removed from a kept disk of hosts with users of their own.")
        call([*INSIDE, str(host.root), "sh", "-c", PURGE_PYTHON])
    steps = [*_stand_ins(spec, host), *(_folder(place) for place in folders)]
    call(private_users.changing(host.root), json.dumps(steps))


def _stand_ins(spec: LabSpec, host: HostLayout) -> Iterator[private_users.Step]:
    """Yield what a specification asks for on a host."""
    models = spec.gpu_models.get(host.name, ())
    if spec.private_users:
        yield "gone", "/etc/tmpfiles.d/lab-devices.conf", "", 0
    elif models:
        yield "file", "/etc/tmpfiles.d/lab-gpus.conf", gpu_devices(len(models)), 0o644
    shipped: dict[str, str] = {}
    if models:
        yield "file", "/etc/lab-gpus", gpu_models(models), 0o644
        shipped |= ON_GPU_HOSTS
    units = "etc/systemd/system"
    if host.name in spec.hanging:
        shipped |= {name: f"{units}/{name}" for name in ("lab-hanging.socket", "lab-hanging.service")}
        yield "link", f"/{units}/multi-user.target.wants/lab-hanging.socket", "../lab-hanging.socket", 0
        yield "link", f"/{units}/ssh.service", "/dev/null", 0
    if spec.private_users:  # what runs this machine's commands on a host that it does not enter
        shipped |= FOR_COMMANDS
        yield "link", f"/{units}/sockets.target.wants/lab-run.socket", "../lab-run.socket", 0
    for name, place in shipped.items():
        yield "file", f"/{place}", (SHIPPED / name).read_text(), 0o755 if place.startswith("usr/bin/") else 0o644
    is_offline = host.name in spec.offline or host.name in spec.ipv6
    if is_offline or not spec.apt_lists:
        yield "empty", "/var/lib/apt/lists", "", 0
    if is_offline:
        yield "empty", "/var/cache/apt/archives", "", 0


def _folder(place: str) -> private_users.Step:
    return "folder", place, "", 0
