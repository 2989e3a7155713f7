"""The base trees: one small Debian per suite, built once, on which every host's root file system is laid.

A tree holds what a minimal installation with an SSH server holds, and in its apt cache the packages that a deployment
will ask for, so that each lab need not fetch them again. Nothing of Slurm is installed. A tree is built under a
temporary name and renamed when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from slurmfab.errors import LabError
from slurmfab.lab import sources, state
from slurmfab.lab.command import CONTAINED, call
from slurmfab.lab.layout import CACHE

INSTALLED = (
    "systemd systemd-sysv dbus libpam-systemd openssh-server python3 sudo iproute2 iputils-ping procps ca-certificates"
)
"""Packages of every host. python3 in full: python3-minimal lacks modules such as shutil."""

FETCHED = (
    r"munge|libmunge2|slurmctld|slurmd|slurm-client|slurmdbd|slurm-wlm-(basic|mysql)-plugins?|slurm-wlm-mpi-plugins?"
    r"|mariadb-server|libpmix2(t64)?|libpmix-bin|chrony|python3"
)
"""Packages that are fetched with all they need but not installed: an extended regular expression."""

PYTHON = r"s/^ii +((lib)?python3.*)/\1/p"
"""Script for sed: the names of the packages that make up Python, from a list of all that are installed."""

FETCH = f"""
set -e
tree=$1
fetch() {{ chroot "$tree" apt-get -qq -y -o APT::Install-Recommends=true --download-only "$@"; }}
chroot "$tree" apt-get clean
fetch install $(chroot "$tree" apt-cache pkgnames | grep -xE '{FETCHED}')
fetch --reinstall install $(chroot "$tree" dpkg-query -W -f '${{db:Status-Abbrev}}${{Package}}\n' | sed -nE '{PYTHON}')
"""
"""Run by mmdebstrap in the finished tree."""

MASKED = (
    "apt-daily.timer apt-daily-upgrade.timer console-getty.service container-getty@.service dpkg-db-backup.timer "
    "e2scrub_all.timer e2scrub_reap.service fstrim.timer getty.target systemd-networkd.service systemd-networkd.socket "
    "systemd-modules-load.service systemd-networkd-wait-online.service systemd-remount-fs.service "
    "systemd-timesyncd.service systemd-resolved.service"
)
"""Units without a purpose in a container; each would cost every boot a little."""

REMOUNT = 'while read -r _ place kind _; do if [ "$kind" = cgroup ]; then mount -o remount,bind,rw "$place"; fi; done'
"""Shell text: make every cgroup controller of version 1 in the list on standard input writable."""

CGROUP_UNIT = f"""[Unit]
Description=Make the cgroup controllers of this lab host writable, as they are on a real machine
DefaultDependencies=no
Before=sysinit.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c '{REMOUNT} </proc/mounts'

[Install]
WantedBy=sysinit.target
"""
"""systemd-nspawn mounts the version 1 controllers read-only."""

SSH_DROP_IN = """[Unit]
After=systemd-user-sessions.service dbus.service
"""
"""sshd answers only when users may really log in, so an answer means that the host is up."""

FILES = {
    "etc/systemd/system/lab-cgroups.service": CGROUP_UNIT,
    "etc/systemd/system/ssh.service.d/lab.conf": SSH_DROP_IN,
    # Lab hosts are thrown away: flushing every unpacked file to disk would triple the time of a deployment.
    "etc/dpkg/dpkg.cfg.d/lab": "force-unsafe-io\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/fstab": "",
    "etc/hostname": "unnamed\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
"""Files of every host: path to text."""


def ensure(suite: str, progress: Callable[[str], None]) -> Path:
    """The base tree of a suite; it is built when there is none that fits the recipe.

    Raises:
        LabError: mmdebstrap failed; the text has its last words.
    """
    origin = sources.machine_sources(suite)
    settings = sources.carried_settings(call(["apt-config", "dump"]))
    recipe = repr((INSTALLED, FETCHED, FETCH, MASKED, FILES, origin, settings))
    tree = CACHE / f"{suite}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"
    if tree.is_dir():
        return tree
    with state.locked(CACHE, patience=900):
        if not tree.is_dir():
            progress(f"building the {suite} base tree, once; this takes a minute or two")
            _remove_half_built()
            _build(suite, tree, origin, settings)
    return tree


def remove_cache() -> None:
    """Remove the base trees that no lab uses.

    Raises:
        LabError: another process is building a tree.
    """
    with state.locked(CACHE, patience=0, make=False):
        used = {lab.base for lab in state.states()}
        for tree in sorted(CACHE.iterdir()) if CACHE.is_dir() else ():
            if str(tree) not in used:
                shutil.rmtree(tree)


def remove_half_built() -> None:
    """Remove what a killed build has left; when somebody builds at this moment, nothing is left over."""
    try:
        with state.locked(CACHE, patience=0, make=False):
            _remove_half_built()
    except LabError:
        return


def _remove_half_built() -> None:
    """Remove what a killed build has left; the caller holds the lock on the cache."""
    for path in CACHE.glob(".building-*"):
        shutil.rmtree(path)


def _build(suite: str, tree: Path, origin: tuple[sources.Source, ...], settings: tuple[str, ...]) -> None:
    """Build a tree under a temporary name and rename it."""
    place = CACHE / f".building-{suite}-{os.getpid()}"
    half = place / "tree"
    place.mkdir()
    given: list[str] = []
    if origin:
        file = place / "lab.sources"
        file.write_text(sources.render(origin))
        given = [str(file)]
    options = ["--mode=root", "--variant=minbase", "--quiet", "--skip=cleanup/apt", "--dpkgopt=force-unsafe-io"]
    options += [f"--aptopt={setting}" for setting in settings]
    options += [f"--include={INSTALLED.replace(' ', ',')}", f"--customize-hook={FETCH}"]
    try:
        call([*CONTAINED, "mmdebstrap", *options, suite, str(half), *given])
        _finish(half, origin)
        half.rename(tree)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _finish(tree: Path, origin: tuple[sources.Source, ...]) -> None:
    """Make a fresh tree fit for being booted many times over."""
    for name, text in FILES.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    units = tree / "etc/systemd/system"
    for unit in MASKED.split():
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (units / "sysinit.target.wants").mkdir(exist_ok=True)
    (units / "sysinit.target.wants/lab-cgroups.service").symlink_to("/etc/systemd/system/lab-cgroups.service")
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for source in origin:
        if source.signed_by.startswith("/") and not (tree / source.signed_by[1:]).exists():
            shutil.copy(source.signed_by, tree / source.signed_by[1:])
    if any(uri.startswith("https:") for source in origin for uri in source.uris):
        _trust_local_authorities(tree)


def _trust_local_authorities(tree: Path) -> None:
    """Give the tree the certificate authorities that this machine was told to trust, for mirrors on https."""
    own = sorted(Path("/usr/local/share/ca-certificates").glob("*.crt"))
    for certificate in own:
        shutil.copy(certificate, tree / "usr/local/share/ca-certificates")
    if own:
        call(["chroot", str(tree), "update-ca-certificates"])
