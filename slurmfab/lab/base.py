"""Base trees: one minimal system per suite, built once, the lower layer of each host's root file system.

A tree contains a minimal installation with an SSH server. Its apt cache has the packages that a deployment installs, so
that labs do not download them again. Slurm is not installed. Its package lists name only the packages that are
installed or in the cache: apt-get then starts in a tenth of the processor time. `apt-get update` on a host fetches the
whole lists. A tree is built under a temporary name and renamed when it is complete.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import disks, el_standin, smd_standin, sources, state, ubuntu_like
from slurmfab.lab.command import CONTAINED, call
from slurmfab.lab.layout import CACHE
from slurmfab.lab.spec import ENTERPRISE_LINUX, UBUNTU_SUITES

INSTALLED = (
    "systemd systemd-sysv dbus libpam-systemd openssh-server python3 sudo iproute2 iputils-ping procps ca-certificates"
)
"""Packages installed on every host. python3-minimal does not suffice: it lacks modules such as shutil."""

FETCHED = (
    r"munge|libmunge2|slurmctld|slurmd|slurm-client|slurmdbd|slurm-wlm-(basic|mysql)-plugins?|slurm-wlm-mpi-plugins?"
    r"|mariadb-server|libpmix2(t64)?|libpmix-bin|chrony|python3"
)
"""Packages downloaded with their dependencies but not installed, as an extended regular expression."""

CAPABILITIES = (
    r"nfs-kernel-server|nfs-common|rpcbind|quota|glusterfs-(server|client)|sshfs|lmod|environment-modules|msmtp|msmtp-mta"
    r"|openmpi-bin|libpmix-dev|libpam-slurm-adopt|xauth|nftables|fish|tcsh|zsh|podman|crun|uidmap|busybox-static"
    r"|fuse-overlayfs|slirp4netns|passt|golang-github-containers-common|catatonit|netavark|dbus-user-session|skopeo|umoci"
    r"|docker\.io|docker-cli|docker-registry|apache2-utils|runc|squashfs-tools|squashfuse|apptainer|fio|hpcc"
    r"|prometheus|prometheus-node-exporter|systemd-container|age|slurmrestd|slurm-wlm-jwt-plugin"
)
"""Packages that cluster files and tests ask for beside Slurm, as an extended regular expression. They are downloaded
one by one, because some conflict, and without recommended packages, as slurmfab installs them."""

PYTHON = r"s/^ii +((lib)?python3.*)/\1/p"
"""sed script that prints the names of Python's packages from a list of installed packages."""

FETCH = f"""
set -e
tree=$1
fetch() {{ chroot "$tree" apt-get -qq -y -o APT::Install-Recommends=true --download-only "$@"; }}
chroot "$tree" apt-get clean
fetch install $(chroot "$tree" apt-cache pkgnames | grep -xE '{FETCHED}')
for package in $(chroot "$tree" apt-cache pkgnames | grep -xE '{CAPABILITIES}'); do
    fetch --no-install-recommends install "$package"
done
fetch --reinstall install $(chroot "$tree" dpkg-query -W -f '${{db:Status-Abbrev}}${{Package}}\n' | sed -nE '{PYTHON}')
"""
"""Shell script that downloads packages into the tree's apt cache; mmdebstrap runs it as a customize hook."""

INSTALL = """
set -e
tree=$1 place=$2 root=$2/root
shift 2
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$place/upper,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
printf '#!/bin/sh\\nexit 101\\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
install() { DEBIAN_FRONTEND=noninteractive chroot "$root" \\
    apt-get -qq -y --no-download --no-install-recommends install "$@" </dev/null; }
for package in "$@"; do [ "$package" != munge ] || install munge; done
install "$@"
rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/munge/munge.key"
umount "$root/proc" "$root"
"""
"""Shell script that installs packages into an overlay on the base tree without starting their daemons. munge is first,
so that its user has the same UID beside every other package. The munge key that the package makes is removed, because
all hosts with this overlay would have the same one."""

LOCAL_SOURCE = """# Of the lab: a stand-in for the package source of a site.
Types: deb
URIs: file:/var/lib/lab-packages
Suites: ./
Trusted: yes
"""
"""A package source of hosts, in a directory of their own."""

ADD_SOURCE = """
set -e
tree=$1 place=$2 root=$2/root
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$place/upper,workdir=$place/work" "$root"
cp -r "$place/repository" "$root/var/lib/lab-packages"
cp "$place/lab.sources" "$root/etc/apt/sources.list.d/lab-packages.sources"
chroot "$root" apt-get -qq -o Dir::Etc::sourcelist=sources.list.d/lab-packages.sources \\
    -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 update
rm -f "$root"/var/cache/apt/*.bin
chroot "$root" apt-cache gencaches
umount "$root"
"""
"""Shell script that adds a package source in a directory, and its list alone, to an overlay on the base tree."""

MASKED = (
    "apt-daily.timer apt-daily-upgrade.timer console-getty.service container-getty@.service dpkg-db-backup.timer "
    "e2scrub_all.timer e2scrub_reap.service fstrim.timer getty.target systemd-networkd.service systemd-networkd.socket "
    "systemd-modules-load.service systemd-networkd-wait-online.service systemd-remount-fs.service "
    "systemd-timesyncd.service systemd-resolved.service systemd-update-utmp.service "
    "systemd-update-utmp-runlevel.service dev-hugepages.mount sys-fs-fuse-connections.mount sys-kernel-config.mount "
    "sys-kernel-debug.mount sys-kernel-tracing.mount modprobe@.service"
)
"""systemd units that are useless in a container; masked, because each makes every boot a little slower."""

MASKED_ON_UBUNTU = "motd-news.timer motd-news.service"  # further units that are useless on a lab host with Ubuntu

NO_SOCKET = "systemctl disable ssh.socket && systemctl enable ssh.service"
"""Shell command for Ubuntu, whose sshd is started by its first connection: it starts at boot as on Debian, so that
`SSH_DROP_IN` holds, and a host that answers is up."""

REMOUNT = 'while read -r _ place kind _; do if [ "$kind" = cgroup ]; then mount -o remount,bind,rw "$place"; fi; done'
"""Shell loop that remounts cgroup v1 controllers read-write; reads lines of /proc/mounts from standard input."""

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
"""systemd unit that makes cgroup v1 controllers writable, because systemd-nspawn mounts them read-only."""

SSH_DROP_IN = """[Unit]
After=systemd-user-sessions.service dbus.service
"""
"""Drop-in for ssh.service: sshd starts only when users can log in, so its answer means that the host is up."""

OUTDATED = (re.compile(r"^ [0-9a-f]{8}(?=[0-9a-f]+ +[0-9]+ .*Packages)", re.MULTILINE), " 00000000")
"""Pattern and replacement that change the checksums of package lists in a release file. apt-get update fetches a list
only if its checksum differs from the one in the release file that is there, and apt trusts that file as it is."""

FILES = {
    "etc/systemd/system/lab-cgroups.service": CGROUP_UNIT,
    "etc/systemd/system/ssh.service.d/lab.conf": SSH_DROP_IN,
    # Lab hosts are disposable, and flushing each unpacked file to disk would triple the time of a deployment.
    "etc/dpkg/dpkg.cfg.d/lab": "force-unsafe-io\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
    "etc/fstab": "",
    # Programs that run containers without root need both, which udev makes on a real machine.
    "etc/tmpfiles.d/lab-devices.conf": "c /dev/fuse 0666 root root - 10:229\nz /dev/net/tun 0666 root root -\n",
    "etc/hostname": "unnamed\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}
"""Contents of files on every host, by path relative to the root directory."""


def ensure(suite: str, progress: Callable[[str], None]) -> Path:
    """Path of a suite's base tree; builds the tree if none matches the current recipe.

    `suite`: Debian or Ubuntu suite. Raises LabError if mmdebstrap failed (the text has its last lines of output),
    another process builds for too long, or there is no mirror of Ubuntu.
    """
    origin = sources.machine_sources(suite)
    settings = sources.carried_settings(call(["apt-config", "dump"]))
    own = (MASKED_ON_UBUNTU, NO_SOCKET) if suite in UBUNTU_SUITES else ()
    recipe = repr((INSTALLED, FETCH, MASKED, FILES, OUTDATED, origin, settings, *own))

    def build(tree: Path) -> None:
        progress(f"building the {suite} base tree, once; this takes a minute or two")
        _build(suite, tree, origin, settings)

    return cached(suite, recipe, build)


def cached(name: str, recipe: str, build: Callable[[Path], None]) -> Path:
    """Path of a directory of the cache; if there is none by this recipe, `build` makes it, in one process at a time."""
    place = CACHE / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:8]}"
    if not place.is_dir():
        with state.locked(CACHE, patience=900):
            if not place.is_dir():
                remove_half_built_here()
                build(place)
    return place


@contextmanager
def workplace(name: str) -> Iterator[Path]:
    """A directory for an overlay that is removed in the end."""
    place = CACHE / f".building-{name}-{os.getpid()}"
    try:
        for folder in ("upper", "work", "root"):
            (place / folder).mkdir(parents=True)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def like_ubuntu(tree: Path, like: str, progress: Callable[[str], None]) -> Path:
    """Path of the overlay that makes a look-alike of Ubuntu of a base tree; LabError if its packages are not there."""
    release = ubuntu_like.LIKES[like]

    def build(place: Path) -> None:
        progress(f"making a look-alike of {like} of the tree {tree.name}, once; this takes a minute")
        ubuntu_like.write_files(like, place / "files")
        rust = "yes" if release.rust else "no"
        script = [*CONTAINED, "sh", "-c", ubuntu_like.BUILD, "sh", str(tree), str(place), rust, *release.packages]
        call(script)

    return _layer(tree, like + inspect.getsource(ubuntu_like), build)


def with_slurm(tree: Path, kind: str, progress: Callable[[str], None]) -> tuple[Path, ...]:
    """Paths of the directories that make a base tree's hosts, topmost first, for one kind of Slurm packages.

    `kind`: `debian`, or `smd` for a tree that also has a package source with the stand-in for SchedMD's packages, or
    one of `ENTERPRISE_LINUX` for the stand-in for that. Raises LabError if the packages cannot be made, or another
    process builds for too long.
    """
    if kind == "debian":
        return (tree,)
    if kind in ENTERPRISE_LINUX:
        standin = _enterprise_linux(tree, progress)
        recipe = kind + inspect.getsource(el_standin)
        return (_layer(standin, recipe, lambda place: el_standin.add_source(kind, place / "upper")), standin, tree)
    debs = tree / "var/cache/apt/archives"
    own = (ADD_SOURCE, LOCAL_SOURCE, inspect.getsource(smd_standin), sorted(deb.name for deb in debs.glob("*.deb")))

    def add(place: Path) -> None:
        progress(f"packing the stand-in for SchedMD's packages for the base tree {tree.name}, once")
        repository = place / "repository"
        smd_standin.pack(debs, repository)
        smd_standin.write_index(repository)
        (place / "lab.sources").write_text(LOCAL_SOURCE)
        call([*CONTAINED, "sh", "-c", ADD_SOURCE, "sh", str(tree), str(place)])

    return (_layer(tree, repr(own), add), tree)


def _enterprise_linux(tree: Path, progress: Callable[[str], None]) -> Path:
    """Path of the overlay that makes the stand-in for Enterprise Linux of a base tree of Debian."""

    def build(place: Path) -> None:
        progress(f"making a stand-in for Enterprise Linux of the tree {tree.name}, once; this takes a minute or two")
        el_standin.prepare(tree / "var/cache/apt/archives", place)
        call([*CONTAINED, "sh", "-c", el_standin.BUILD, "sh", str(tree), str(place)])

    return _layer(tree, inspect.getsource(el_standin), build)


def with_packages(trees: tuple[Path, ...], packages: tuple[str, ...], progress: Callable[[str], None]) -> Path:
    """Path of an overlay of sorted packages, from the base tree's apt cache, on these trees, topmost first.

    Raises LabError with apt's last lines, or if another process builds for too long.
    """
    lower = ":".join(map(str, trees))
    # Told to download nothing, apt 3.0 does not find packages in a source that is a directory.
    script = INSTALL if len(trees) == 1 else INSTALL.replace("--no-download ", "")
    if len(trees) > 1 and (trees[0] / "etc/yum.repos.d").exists():
        script = re.sub("apt-get .* install", el_standin.INSTALL, INSTALL)

    def install(place: Path) -> None:
        progress(f"installing {' '.join(packages)} on the base tree {trees[0].name}, once")
        call([*CONTAINED, "sh", "-c", script, "sh", lower, str(place), *packages])

    return _layer(trees[0], repr((packages, script)), install)


def _layer(tree: Path, recipe: str, fill: Callable[[Path], None]) -> Path:
    """Path of an overlay directory on a tree; if there is none, it is what `fill` puts into the `upper` of a place."""

    def build(layer: Path) -> None:
        with workplace(layer.name) as place:
            fill(place)
            (place / "upper").rename(layer)

    return cached(tree.name, recipe, build)


def remove_cache() -> None:
    """Remove base trees, and packages on them, that nothing uses; LabError while another process builds one."""
    with state.locked(CACHE, patience=0, make=False):
        used = {lab.base for lab in state.states()} | {kept.base for kept in disks.all_kept()}
        used |= {str(one) for lab in state.states() if lab.spec.newer_slurm for one in CACHE.glob("newer-slurm-*")}
        used |= {layer for kept in disks.all_kept() for layers in kept.layers.values() for layer in layers}
        for lab in state.states():
            used |= {layer for name in lab.spec.host_names for layer in disks.layers_of(lab.layout.host(name))}
        for tree in sorted(CACHE.iterdir()) if CACHE.is_dir() else ():
            if str(tree) not in used:
                shutil.rmtree(tree)


def remove_half_built() -> None:
    """Remove leftovers of interrupted builds; does nothing while another process holds the cache's lock."""
    try:
        with state.locked(CACHE, patience=0, make=False):
            remove_half_built_here()
    except LabError:
        return


def remove_half_built_here() -> None:
    """Remove leftovers of interrupted builds; the caller holds the cache's lock."""
    for path in CACHE.glob(".building-*"):
        shutil.rmtree(path)


def _build(suite: str, tree: Path, origin: tuple[sources.Source, ...], settings: tuple[str, ...]) -> None:
    """Build a tree under a temporary name, then rename it to `tree`."""
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
        _finish(half, suite, origin)
        half.rename(tree)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _finish(tree: Path, suite: str, origin: tuple[sources.Source, ...]) -> None:
    """Complete a new tree: write files, mask units, remove SSH host keys, add keyrings and certificates."""
    for name, text in FILES.items():
        file = tree / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    units = tree / "etc/systemd/system"
    masked = MASKED.split()
    if suite in UBUNTU_SUITES:
        call(["chroot", str(tree), "sh", "-c", NO_SOCKET])
        masked += MASKED_ON_UBUNTU.split()
    for unit in masked:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (units / "sysinit.target.wants").mkdir(exist_ok=True)
    (units / "sysinit.target.wants/lab-cgroups.service").symlink_to("/etc/systemd/system/lab-cgroups.service")
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    _shorten_lists(tree)
    for source in origin:
        if source.signed_by.startswith("/") and not (tree / source.signed_by[1:]).exists():
            shutil.copy(source.signed_by, tree / source.signed_by[1:])
    if any(uri.startswith("https:") for source in origin for uri in source.uris):
        _trust_local_authorities(tree)


def _shorten_lists(tree: Path) -> None:
    """Reduce a tree's package lists to packages that are installed or in its apt cache."""
    status = (tree / "var/lib/dpkg/status").read_text()
    kept = set(re.findall(r"^Package: (.*)$", status, re.MULTILINE))
    kept |= {path.name.partition("_")[0] for path in (tree / "var/cache/apt/archives").glob("*.deb")}
    lists = tree / "var/lib/apt/lists"
    for file in lists.glob("*_Packages"):
        entries = (entry for entry in file.read_text().split("\n\n") if entry.strip())
        file.write_text("".join(f"{entry.strip()}\n\n" for entry in entries if _package_of(entry) in kept))
    for file in lists.glob("*Release"):
        file.write_text(re.sub(*OUTDATED, file.read_text()))
    for cache in (tree / "var/cache/apt").glob("*.bin"):
        cache.unlink()
    call(["chroot", str(tree), "apt-cache", "gencaches"])


def _package_of(entry: str) -> str:
    """Name of the package that an entry of a package list describes; its first field is always `Package`."""
    return entry.lstrip().partition("\n")[0].removeprefix("Package: ")


def _trust_local_authorities(tree: Path) -> None:
    """Copy this machine's local certificate authorities into the tree, for package mirrors on https."""
    own = sorted(Path("/usr/local/share/ca-certificates").glob("*.crt"))
    for certificate in own:
        shutil.copy(certificate, tree / "usr/local/share/ca-certificates")
    if own:
        call(["chroot", str(tree), "update-ca-certificates"])
