"""A file tree with a distribution's real Slurm in it, and commands that run there shut off from everything else."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from slurmfab.lab import base

PACKAGES = "slurmctld slurmd slurm-client munge"

MOUNT = """
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount -t proc proc "$2/root/proc"
mount -t sysfs -o ro sysfs "$2/root/sys"
mount -t tmpfs tmpfs "$2/root/run"
mount --rbind /dev "$2/root/dev"
ip link set lo up
ip address add 10.0.0.1/32 dev lo
hostname mn01
echo '10.0.0.1 mn01' >"$2/root/etc/hosts"
"""
"""$1 is the base tree and $2 the scratch directory; all of it ends with the namespaces that it is done in."""


@dataclass(frozen=True)
class SlurmTree:
    """The real Slurm of one suite, installed into a scratch directory that lies on the lab's base tree.

    Args:
        base: the lab's base tree, which is not written to.
        scratch: everything that is.
    """

    base: Path
    scratch: Path

    @property
    def root(self) -> Path:
        """Where files are put so that commands see them below `/`."""
        return self.scratch / "upper"

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script there as root, in mount, process, network and host name namespaces of its own."""
        namespaces = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
        inside = f'{MOUNT}exec chroot "$2/root" /bin/sh -c "$3"'
        argv = [*namespaces, "sh", "-ec", inside, "sh", str(self.base), str(self.scratch), script]
        return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)

    def write(self, directory: str, texts: dict[str, str]) -> None:
        """Put files into a directory of the tree; others in it go."""
        place = self.root / directory.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        for path in place.iterdir():
            path.unlink()
        for name, text in texts.items():
            (place / name).write_text(text)


def install(suite: str, scratch: Path, progress: Callable[[str], None]) -> SlurmTree:
    """A tree with the Slurm packages of a suite, taken from the base tree's apt cache."""
    tree = SlurmTree(base.ensure(suite, progress), scratch)
    for name in ("upper", "work", "root"):
        (scratch / name).mkdir(parents=True)
    apt = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-download --no-install-recommends"
    done = tree.run(f"{apt} install {PACKAGES} && mungekey --force --create && chown munge: /etc/munge/munge.key")
    assert done.returncode == 0, done.stdout + done.stderr
    return tree
