"""The root file system of one host: an overlay on the base tree, with all that makes this host itself."""

from __future__ import annotations

import secrets
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path

from slurmfab.lab import mounts, nccl_standin, standins
from slurmfab.lab.command import CONTAINED, call
from slurmfab.lab.layout import HostLayout, LabLayout
from slurmfab.lab.network import resolver_text
from slurmfab.lab.spec import LabSpec
from slurmfab.lab.state import LabState

KEY_TYPES = {"ed25519": (), "ecdsa": (), "rsa": ("-b", "2048")}
"""Types of SSH host keys, with options for ssh-keygen: small RSA keys, as making them is what takes time."""

INSIDE = (*CONTAINED, "chroot")
"""How to run something in a root file system that is not booted."""

PURGE_PYTHON = (
    "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'python3*' 'libpython3*' "
    "| sed -n 's/^ii  *//p' | DEBIAN_FRONTEND=noninteractive xargs dpkg --purge"
)
"""Remove Python as a package manager does it, so that it can come back the same way."""


def make_keys(lab: LabLayout, hosts: tuple[str, ...]) -> None:
    """Make the lab's own key."""
    if not lab.ssh_key.exists():
        call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"lab {lab.lab}", "-f", str(lab.ssh_key)])
    for host in hosts:
        lab.host(host).keys.mkdir(parents=True, exist_ok=True)


def make_host_keys(host: HostLayout) -> None:
    """Make the SSH host keys of one host, each once."""
    for kind, options in KEY_TYPES.items():
        file = host.keys / f"ssh_host_{kind}_key"
        if not file.with_suffix(".pub").exists():
            file.unlink(missing_ok=True)
            call(["ssh-keygen", "-q", "-t", kind, *options, "-N", "", "-C", f"root@{host.name}", "-f", str(file)])


def host_keys(host: HostLayout) -> Mapping[str, str]:
    """The public SSH host keys of one host: type to base64."""
    files = sorted(host.keys.glob("*.pub"))
    return {words[0]: words[1] for words in (file.read_text().split() for file in files) if len(words) > 1}


def prepare(state: LabState, name: str, address: str) -> None:
    """Make a host's root file system; one that is there already stays as it is, with all that was done to it."""
    host = state.layout.host(name)
    fresh = not (host.directory / "prepared").exists()
    _mount(Path(state.base), host)
    if fresh:
        _identify(state.spec, host, address)
        _let_in(state, host)
        _equip(state.spec, host)
        (host.directory / "prepared").touch()


def _mount(base: Path, host: HostLayout) -> None:
    """Lay the overlay, unless it is there."""
    upper, work = host.directory / "upper", host.directory / "work"
    for directory in (upper, work, host.root):
        directory.mkdir(parents=True, exist_ok=True)
    if host.root not in mounts.mount_points():
        options = f"lowerdir={base},upperdir={upper},workdir={work}"
        call(["mount", "-t", "overlay", f"slurmfab-{host.machine}", "-o", options, str(host.root)])


def _identify(spec: LabSpec, host: HostLayout, address: str) -> None:
    """Write what makes this host this host: names, machine ID, SSH host keys."""
    etc = host.root / "etc"
    own = "127.0.1.1" if spec.loopback_name else address
    (etc / "hostname").write_text(f"{host.name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n{own} {host.name}\n")
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (etc / "resolv.conf").unlink(missing_ok=True)
    (etc / "resolv.conf").write_text(resolver_text())
    for key in host.keys.iterdir():
        shutil.copy(key, etc / "ssh")


def _let_in(state: LabState, host: HostLayout) -> None:
    """Open the host to the lab's key: for root, or for a user who has sudo."""
    user, home = state.spec.ssh_user, host.root / "root"
    if user != "root":
        call([*INSIDE, str(host.root), "useradd", "--create-home", "--shell", "/bin/bash", user])
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
    """Think of the password that sudo will ask for; nobody but root can read the file."""
    lab.sudo_password.touch(mode=0o600)
    lab.sudo_password.write_text(f"{secrets.token_urlsafe(12)}\n")


def _equip(spec: LabSpec, host: HostLayout) -> None:
    """Add what the lab was asked for beyond a plain host: stand-ins, and things that are missing."""
    etc = host.root / "etc"
    models = spec.gpu_models.get(host.name, ())
    if models:
        (etc / "tmpfiles.d/lab-gpus.conf").write_text(standins.gpu_devices(len(models)))
        (etc / "lab-gpus").write_text(standins.gpu_models(models))
        tool = host.root / "usr/bin/nvidia-smi"
        tool.write_text(standins.NVIDIA_SMI)
        tool.chmod(0o755)
        measuring = host.root / nccl_standin.PROGRAM.lstrip("/")
        measuring.write_text(nccl_standin.ALL_REDUCE_PERF)
        measuring.chmod(0o755)
        table = host.root / nccl_standin.TABLE_FILE.lstrip("/")
        table.parent.mkdir()
        table.write_text(nccl_standin.TABLE)
    if host.name in spec.hanging:
        units = etc / "systemd/system"
        (units / "lab-hanging.socket").write_text(standins.HANGING_SOCKET)
        (units / "lab-hanging.service").write_text(standins.HANGING_SERVICE)
        (units / "multi-user.target.wants").mkdir(exist_ok=True)
        (units / "multi-user.target.wants/lab-hanging.socket").symlink_to(units.joinpath("lab-hanging.socket").name)
        (units / "ssh.service").symlink_to("/dev/null")
    is_offline = host.name in spec.offline
    if is_offline or not spec.apt_lists:
        _empty(host.root / "var/lib/apt/lists")
    if is_offline:
        _empty(host.root / "var/cache/apt/archives")
    if host.name in spec.no_python:
        call([*INSIDE, str(host.root), "sh", "-c", PURGE_PYTHON])


def _empty(directory: Path) -> None:
    """Remove all that is in a directory."""
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
