"""A signed apt repository with a newer Slurm for lab hosts, made once on this machine.

Debian's sid has a newer Slurm than its stable releases. Its packages, and just those libraries that they need beside
what lab hosts know already, are downloaded once from the mirror that this machine uses, in an overlay on the base tree:
this machine's own apt is left alone, and no host fetches lists. Hosts see the repository, read-only, as a directory:

    /srv/newer-slurm/dists/newer/…        its lists, signed
    /srv/newer-slurm/pool/…               its packages
    /srv/newer-slurm/key.asc              the key that has signed them

The same Slurm is there a second time as the stand-in for SchedMD's packages (`smd_standin`).

Other packages make such a repository likewise (`make`). The key is made for one repository, and its secret half is
deleted at once.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from email.utils import formatdate
from pathlib import Path

from slurmfab.base.errors import LabError
from slurmfab.lab import base, smd_standin, sources
from slurmfab.lab.command import CONTAINED, call

PLACE = "/srv/newer-slurm"  # where hosts see the repository

SUITE, COMPONENT = "newer", "main"
KEY = "key.asc"  # the file with the public key, in the repository
NEWEST = "sid"  # the suite of Debian that the packages come from

NEEDED = "slurmctld slurmd slurm-client slurmdbd slurm-wlm-basic-plugins slurm-wlm-mysql-plugin"
"""Slurm's packages that have to be there."""

FURTHER = (
    "libpam-slurm-adopt libslurm45t64 sackd slurmrestd slurm-wlm-plugins slurm-wlm-jwt-plugin slurm-wlm-hdf5-plugin "
    "slurm-wlm-influxdb-plugin slurm-wlm-ipmi-plugins slurm-wlm-rsmi-plugin slurm-wlm-elasticsearch-plugin"
)
"""Slurm's packages that are there if the hosts' suite has what else they need."""

TOGETHER = "libhwloc15 libhwloc-plugins libze1 libxml2-16"
"""Libraries of one version: an upgrade of Slurm, which needs the first, would remove the second otherwise."""

FETCH = f"""
set -e
tree=$1 place=$2 root=$2/root
mount -t overlay overlay -o "lowerdir=$tree,upperdir=$place/upper,workdir=$place/work" "$root"
mount -t proc proc "$root/proc"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp "$place/newest.sources" "$root/etc/apt/sources.list.d/newest.sources"
printf 'Package: *\\nPin: release n={NEWEST}\\nPin-Priority: 100\\n' >"$root/etc/apt/preferences.d/newest"
chroot "$root" apt-get -qq update
fetch() {{ chroot "$root" apt-get -qq -y --no-install-recommends --download-only install "$@" </dev/null; }}
fetch $(printf '%s/{NEWEST} ' {NEEDED})
for package in {FURTHER}; do fetch "$package/{NEWEST}" || true; done
fetch $(printf '%s/{NEWEST} ' {TOGETHER}) || true
umount "$root/proc" "$root"
"""
"""Shell script that downloads Slurm's packages from another suite into the apt cache of an overlay on the base tree.
`NAME/SUITE` lets what they need come from that suite, too, where the hosts' own suite does not have it."""


def ensure(suite: str, progress: Callable[[str], None]) -> Path:
    """Path of the repository with a newer Slurm for hosts of a suite; makes it on first use, which takes seconds.

    `progress`: called with a one-line message before it is made. Raises LabError if the packages cannot be downloaded,
    or the hosts' suite is too old for them; the text has apt's lines.
    """
    lacking = [program for program in ("gpg", "gpg-agent", "dpkg-deb") if shutil.which(program) is None]
    if lacking:
        raise LabError(f"Programs for the lab's repository are missing. Try: apt-get install {' '.join(lacking)}")
    tree = base.ensure(suite, progress)
    newest = sources.render(sources.machine_sources(NEWEST))
    if not newest:
        raise LabError(f"This machine uses no Debian mirror, so the packages of {NEWEST} cannot be had.")

    def build(repository: Path) -> None:
        progress(f"downloading a newer Slurm for {suite}, once")
        with base.workplace(repository.name) as place:
            (place / "newest.sources").write_text(newest)
            call([*CONTAINED, "sh", "-c", FETCH, "sh", str(tree), str(place)])
            debs = _unknown_to_hosts(place / "upper", tree)
            smd = smd_standin.pack(place / "upper/var/cache/apt/archives", place / "smd")
            make((*debs, *smd), place / "made")
            (place / "made").rename(repository)

    return base.cached(f"newer-slurm-{tree.name}", repr((FETCH, newest, inspect.getsource(smd_standin))), build)


def _unknown_to_hosts(upper: Path, tree: Path) -> tuple[Path, ...]:
    """The packages in an overlay's apt cache that the base tree's lists do not have; LabError without Slurm's."""
    lists = (tree / "var/lib/apt/lists").glob("*_Packages")
    known = {name_and_version(entry) for file in lists for entry in file.read_text().split("\n\n")}
    debs = sorted((upper / "var/cache/apt/archives").glob("*.deb"))
    found = tuple(deb for deb in debs if name_and_version(control_of(deb)) not in known)
    if not any(deb.name.startswith("slurmd_") for deb in found):
        raise LabError(f"{NEWEST} has no other Slurm than {tree.name.partition('-')[0]}, so there is no newer one.")
    return found


def make(debs: Iterable[Path], place: Path) -> Path:
    """Make a signed apt repository (`dists/newer/main`, `pool`, `key.asc`) of copies of .deb files; or LabError."""
    pool, dist = place / "pool", place / "dists" / SUITE
    pool.mkdir(parents=True)
    entries = dict[str, list[str]]()
    for deb in sorted(debs):
        control = control_of(deb)
        # As on a mirror, without the epoch, whose colon apt writes as %3a.
        file = pool / re.sub(r"_\d+(%3a|:)", "_", deb.name)
        shutil.copy(deb, file)
        entries.setdefault(field(control, "Architecture"), []).append(_entry(control, file))
    both = entries.pop("all", [])
    for architecture in sorted(entries) or ("amd64",):
        folder = dist / COMPONENT / f"binary-{architecture}"
        folder.mkdir(parents=True)
        (folder / "Packages").write_text("\n".join((*entries.get(architecture, ()), *both)))
    (dist / "Release").write_text(_release(dist, sorted(entries)))
    _sign(dist, place / KEY)
    call(["chmod", "-R", "u=rwX,go=rX", str(place)])
    return place


def control_of(deb: Path) -> str:
    """The control file of a package."""
    return call(["dpkg-deb", "--field", str(deb)]).strip()


def name_and_version(entry: str) -> tuple[str, str]:
    """Name and version of a package, by its control file or its entry in a list."""
    return field(entry, "Package"), field(entry, "Version")


def field(entry: str, name: str) -> str:
    """A field of a control file or of an entry in a list; empty if it has none."""
    found = re.search(rf"^{name}: *(.*)$", entry, re.MULTILINE)
    return found[1].strip() if found else ""


def _entry(control: str, file: Path) -> str:
    """The entry of a package in the repository's list, with a line break at the end."""
    content = file.read_bytes()
    about = f"Filename: pool/{file.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    return f"{control}\n{about}"


def _release(dist: Path, architectures: Iterable[str]) -> str:
    """The text of the Release file (repository-format of Debian's wiki)."""
    lines = [
        f"Origin: lab\nLabel: lab\nSuite: {SUITE}\nCodename: {SUITE}\nComponents: {COMPONENT}",
        f"Architectures: {' '.join(architectures)}\nDate: {formatdate(usegmt=True)}\nSHA256:",
    ]
    for file in sorted(dist.rglob("Packages")):
        content = file.read_bytes()
        lines.append(f" {hashlib.sha256(content).hexdigest()} {len(content)} {file.relative_to(dist)}")
    return "\n".join((*lines, ""))


def _sign(dist: Path, key: Path) -> None:
    """Sign the Release file with a new key, and write its public half alone; gpg's sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="sf-key-") as home:
        gpg = ("gpg", "--homedir", home, "--batch", "--quiet", "--no-tty", "--passphrase", "")
        try:
            call([*gpg, "--quick-generate-key", "A repository of the lab", "ed25519", "sign", "never"])
            key.write_text(call([*gpg, "--armor", "--export"]))
            call([*gpg, "--clearsign", "--output", str(dist / "InRelease"), str(dist / "Release")])
        finally:
            call(["gpgconf", "--homedir", home, "--kill", "all"])
