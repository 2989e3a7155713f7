"""A signed repository of dnf with a newer Slurm for hosts that are a stand-in for Enterprise Linux, made once here.

Debian's packages of it (`slurm_repository`) are packed anew as SchedMD's (`el_standin`), and the libraries that they
need as one package, which takes the place of the tree's. Hosts see it where those of Debian see theirs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from slurmfab.lab import base, el_standin, slurm_repository
from slurmfab.lab.command import CONTAINED, call
from slurmfab.lab.spec import CONTROLLER, ENTERPRISE_LINUX, LabSpec

LIBRARIES = "lab-libraries"  # the package of libraries
KIND = "newer"

BUILD = (
    r"""
set -e
FUNCTIONS
trees=$1 place=$2 root=$2/root
mount -t overlay overlay -o "lowerdir=$trees,upperdir=$place/upper,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
mkdir -p "$root/build/made"
cp -a "$place/packages" "$root/build/"
pack KIND /build/made
sign /build/made/KEY '/build/made/*/*.rpm'
inside createrepo_c --quiet /build/made
cp -a "$root/build/made" "$place/made"
umount "$root/proc" "$root"
""".replace("FUNCTIONS", el_standin.MAKE)
    .replace("KIND", KIND)
    .replace("KEY", slurm_repository.KEY)
)
"""Shell script that makes the repository in an overlay on the stand-in's tree."""


def newer_slurm(spec: LabSpec, progress: Callable[[str], None], host: str = CONTROLLER) -> Path:
    """Path of the repository with a newer Slurm for a host of a lab; as `slurm_repository.ensure`."""
    if spec.kinds[host] in ENTERPRISE_LINUX:
        return ensure(spec.suite, progress)
    return slurm_repository.ensure(spec.suite, progress)


def ensure(suite: str, progress: Callable[[str], None]) -> Path:
    """Path of the repository; makes it on first use. Raises LabError if the packages cannot be had or made."""
    debs = slurm_repository.ensure(suite, progress) / "pool"
    trees = base.with_slurm(base.ensure(suite, progress), "el-smd", progress)

    def build(repository: Path) -> None:
        progress("packing a newer Slurm for the stand-in for Enterprise Linux, once")
        with base.workplace(repository.name) as place:
            el_standin.write_packages(debs, place / "packages" / KIND, packages(debs))
            call([*CONTAINED, "sh", "-c", BUILD, "sh", ":".join(map(str, trees)), str(place)])
            call(["chmod", "-R", "u=rwX,go=rX", str(place / "made")])
            (place / "made").rename(repository)

    made_by = BUILD + inspect.getsource(packages) + inspect.getsource(el_standin)
    return base.cached(f"newer-slurm-el-{debs.parent.name}", made_by, build)


def packages(debs: Path) -> Mapping[str, el_standin.Packed]:
    """The packages that are made. The tree's libmariadb stays: a newer one looks for the server's socket elsewhere."""
    names = sorted({deb.name.partition("_")[0] for deb in debs.glob("lib*.deb")})
    libraries = tuple(name for name in names if not name.startswith(("libslurm", "libpam", "libmariadb")))
    core = el_standin.SMD["slurm"]
    return {
        **el_standin.SMD,
        "slurm": replace(core, tags=(*core.tags, f"Requires: {LIBRARIES}")),
        LIBRARIES: el_standin.Packed(libraries, {r"(usr/lib/.*)": r"\1"}),
    }
