"""Kept disks: root file systems of a removed lab, from which new labs start with their packages already installed.

The upper directory of each host's overlay is kept. A copy adds a new upper directory, so it takes neither time nor
space and never changes the kept one. A host's address, name and keys are in many of its files. A copy therefore has
those of the original lab, and only one copy of kept disks can be up at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from slurmfab.base.errors import InputError
from slurmfab.lab import state
from slurmfab.lab.layout import DISKS, HostLayout, LabLayout
from slurmfab.lab.spec import LabSpec
from slurmfab.lab.state import LabState


@dataclass(frozen=True)
class Disks:
    """Kept disks of one removed lab."""

    name: str
    suite: str
    ssh_user: str  # the user who can log in to the hosts with the lab's key
    network: str  # the lab's /24, as in `10.20.30.0/24`
    base: str  # path of the base tree, the lowest layer of all hosts
    layers: dict[str, tuple[str, ...]]  # host name to the overlay directories above the base tree, topmost first

    @property
    def directory(self) -> Path:
        """Directory that contains the disks and the lab's keys."""
        return DISKS / self.name


def names() -> tuple[str, ...]:
    """Names of all kept disks on this machine, including incomplete ones."""
    return tuple(sorted(path.name for path in DISKS.iterdir())) if DISKS.is_dir() else ()


def load(name: str) -> Disks:
    """Load the description of kept disks. Raises InputError if no complete kept disks have this name."""
    found = _read(name)
    if found is None:
        raise InputError(f'There are no kept disks "{name}" (known: {" ".join(names()) or "none"}).')
    return found


def all_kept() -> tuple[Disks, ...]:
    """All kept disks that are complete."""
    return tuple(found for found in map(_read, names()) if found)


def networks() -> tuple[IPv4Network, ...]:
    """Networks of all kept disks; they are reserved for the disks' copies."""
    return tuple(IPv4Network(found.network) for found in all_kept())


def layers_of(host: HostLayout) -> tuple[str, ...]:
    """Overlay directories between a host's upper directory and the base tree; empty for a bare host."""
    return tuple(host.layers.read_text().split()) if host.layers.exists() else ()


def is_copy(host: HostLayout) -> bool:
    """Whether a host started from a copy of kept disks."""
    return any(Path(layer).is_relative_to(DISKS) for layer in layers_of(host))


def take(lab: LabState, name: str) -> Disks:
    """Move the disks of a lab, whose hosts are off and unmounted, to kept ones of a name, in place of others."""
    place = DISKS / name
    if place.exists():
        shutil.rmtree(place)
    layers = {}
    for host in map(lab.layout.host, lab.spec.host_names):
        upper = host.directory / "upper"
        if upper.is_dir():
            kept = place / "hosts" / host.name
            kept.parent.mkdir(parents=True, exist_ok=True)
            layers[host.name] = (str(kept), *layers_of(host))
            upper.rename(kept)
    shutil.copytree(lab.layout.directory / "keys", place / "keys")
    for key in (lab.layout.ssh_key, lab.layout.ssh_key.with_suffix(".pub")):
        shutil.copy2(key, place)
    disks = Disks(name, lab.spec.suite, lab.spec.ssh_user, lab.network, lab.base, layers)
    state.write_json(place / "disks.json", asdict(disks))
    return disks


def for_lab(name: str, spec: LabSpec, bare: Container[str]) -> Disks:
    """Kept disks of this name for a new lab's hosts but bare ones; InputError if none, or suite or user differ."""
    kept = load(name)
    if spec.ipv6 or spec.dual:
        raise InputError(f"The hosts of the disks {name} have IPv4 addresses only, and the lab is to have IPv6.")
    for what, wanted, there in (("suite", spec.suite, kept.suite), ("user", spec.ssh_user, kept.ssh_user)):
        if wanted != there:
            raise InputError(f"The disks {name} have the {what} {there}, and the lab is to have {wanted}.")
    layers = {host: kept.layers[host] for host in spec.host_names if host in kept.layers and host not in bare}
    return replace(kept, layers=layers)


def hand_out(disks: Disks, lab: LabLayout) -> None:
    """Copy the disks' SSH keys into a new lab, and write the `layers` file of each host that gets a copy."""
    for name, layers in disks.layers.items():
        host = lab.host(name)
        host.directory.mkdir(parents=True, exist_ok=True)
        host.layers.write_text("\n".join(layers))
        shutil.copytree(disks.directory / "keys" / name, host.keys, dirs_exist_ok=True)
    for key in (lab.ssh_key, lab.ssh_key.with_suffix(".pub")):
        shutil.copy2(disks.directory / key.name, key)


def remove(name: str) -> None:
    """Remove kept disks of this name, if any; InputError if others use them as lower layers."""
    users = [lab.spec.name for lab in state.states() if lab.disks == name]
    place = f"{DISKS / name}/"
    users += [
        other.name
        for other in all_kept()
        if other.name != name and any(layer.startswith(place) for layers in other.layers.values() for layer in layers)
    ]
    if users:
        raise InputError(f"The disks {name} are in use by {' '.join(users)}: remove that first.")
    if (DISKS / name).is_dir():
        shutil.rmtree(DISKS / name)


def _read(name: str) -> Disks | None:
    """Description of kept disks; None if there are none, or if they are incomplete."""
    data: dict[str, Any] | None = state.read_json(DISKS / name / "disks.json")
    if data is None:
        return None
    return Disks(**{**data, "layers": {host: tuple(layers) for host, layers in data["layers"].items()}})
