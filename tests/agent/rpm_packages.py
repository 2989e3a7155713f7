"""Packages of rpm's for tests, built and signed here, and a root directory whose packages are rpm's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurmfab.cluster.slurm.platform import EL_SMD
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.dnf import slurm_repository

SPEC = """\
Name: {name}
Version: {version}
Release: 1.el9
Summary: a package of a test
License: none
BuildArch: noarch
AutoReqProv: no
{tags}
%description
{name}
%install
mkdir -p %{{buildroot}}/usr/sbin
echo {version} >%{{buildroot}}/usr/sbin/{program}
mkdir -p %{{buildroot}}/etc/slurm
echo DbdHost=localhost >%{{buildroot}}/etc/slurm/slurmdbd.conf
%files
/usr/sbin/{program}
{example}
{scripts}
"""
KILLED = """\
%post -p <lua>
if posix.access("/kill-{name}") then posix.kill(posix.getprocessid("pid"), 9) end
"""
"""A script that kills dnf, if there is such a file."""

FAILS = "%pre -p <lua>\nerror('no good')\n"


@dataclass(frozen=True)
class Spec:
    """What a package is."""

    version: str = "24.11.5"
    tags: str = ""
    scripts: str = ""
    program: str = ""  # by default, its own name
    example: str = ""  # a line of %files for an example of settings


PACKAGES: Mapping[str, tuple[Spec, ...]] = {
    "munge": (Spec("0.5.13", scripts=KILLED),),
    "slurm": (Spec("24.11.5", "Requires: munge", KILLED), Spec("26.05.1", "Requires: munge", KILLED)),
    "slurm-slurmd": (
        Spec("24.11.5", "Requires: slurm = 24.11.5-1.el9"),
        Spec("26.05.1", "Requires: slurm = 26.05.1-1.el9"),
    ),
    "broken": (Spec(scripts=FAILS),),
    "same-file": (Spec(program="munge"),),
    "needs-more": (Spec(tags="Requires: what-nobody-has"),),
    "slurm-slurmdbd": (Spec(example="%config(noreplace) /etc/slurm/slurmdbd.conf"),),
    "site-tool": (Spec("1.0"), Spec()),
    "unsigned": (Spec(),),
}


Given = Callable[..., None]
"""A function that has packages, by their names, in a test's root."""


@dataclass(frozen=True)
class Repository:
    """A repository of dnf: its directory, and the key that has signed its packages."""

    folder: Path
    key: str
    other_key: str  # another key, with which nothing is signed


def make(place: Path) -> Repository:
    """Build all packages, sign them but for one, and index them."""
    folder, home = place / "repository", place / "gnupg"
    for name, specs in PACKAGES.items():
        for spec in specs:
            build(place, folder, name, spec)
    home.mkdir(mode=0o700)
    keys = [made_key(home, name) for name in ("signer", "other")]
    signed = [str(path) for path in folder.rglob("*.rpm") if not path.name.startswith("unsigned")]
    defines = {"_gpg_name": "signer", "_gpg_path": str(home), "__gpg": shutil.which("gpg")}
    words = [word for name, value in defines.items() for word in ("--define", f"{name} {value}")]
    run("rpmsign", *words, "--addsign", *signed, home=home)
    run("createrepo_c", "--quiet", str(folder))
    run("gpgconf", "--kill", "all", home=home)
    return Repository(folder, *keys)


def build(place: Path, folder: Path, name: str, spec: Spec) -> None:
    """Build one package."""
    text = SPEC.format(
        name=name,
        version=spec.version,
        tags=spec.tags,
        program=spec.program or name,
        example=spec.example or "%exclude /etc/slurm",
        scripts=spec.scripts.replace("{name}", name),
    )
    path = place / f"{name}.spec"
    path.write_text(text)
    defines = {"_topdir": str(place / "build"), "_rpmdir": str(folder), "_build_id_links": "none"}
    words = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
    run("rpmbuild", "-bb", "--quiet", *words, str(path))


def made_key(home: Path, name: str) -> str:
    """A new key, as text."""
    run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", name, "rsa2048", "sign", "never", home=home)
    return run("gpg", "--batch", "--armor", "--export", name, home=home)


def run(*words: str, home: Path | None = None) -> str:
    """What a program prints, which must succeed."""
    environment = {**os.environ, **({"GNUPGHOME": str(home)} if home else {})}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout


def lacking(programs: Iterable[str] = ("rpmbuild", "rpmsign", "dnf", "createrepo_c", "gpg")) -> list[str]:
    """The programs that are not here."""
    return [name for name in programs if shutil.which(name) is None]


def write_sources(context: Context, folder: Path, key: str) -> None:
    """Write the source of Slurm's packages, and one of the same packages without its hold, signatures and Slurm."""
    text = slurm_repository.text([f"file://{folder}"], EL_SMD.slurm_packages)
    # The path of a key is one of the machine whose dnf is called.
    text = text.replace(slurm_repository.KEY, context.path(slurm_repository.KEY))
    Path(context.path(slurm_repository.PATH)).write_text(text)
    Path(context.path(slurm_repository.KEY)).write_text(key)
    others = f"[site]\nname=site\nbaseurl=file://{folder}\ngpgcheck=0\nexcludepkgs=slurm* munge unsigned\n"
    Path(context.path(f"{slurm_repository.FOLDER}/site.repo")).write_text(others)


def installed(context: Context) -> dict[str, str]:
    """Name and version of all packages."""
    shown = run("rpm", "--root", context.root, "--query", "--all", "--queryformat", "%{NAME} %{VERSION}\n")
    return {name: version for name, version in (line.split() for line in shown.splitlines()) if name != "gpg-pubkey"}
