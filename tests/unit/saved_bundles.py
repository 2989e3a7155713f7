"""Bundles to test with, made by the code that makes real ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from slurmfab.base.signatures import NAMESPACES, sign
from slurmfab.commands.bundle.archive import KIND
from slurmfab.on_hosts.agent.backup.archive import Archive
from slurmfab.on_hosts.agent.packages.bundle_place import INDEX

ABOUT = {
    "kind": KIND.name,
    "suite": "trixie",
    "architecture": "amd64",
    "slurm": "24.11.5-4+deb13u1",
    "made": "2026-11-21T14:32:00+00:00",
    "by": "ann@laptop",
    "host": "c1",
    "names": ["munge", "openssh-client", "slurm-client", "slurmctld", "slurmd", "sudo"],
}
DEBS = {
    "munge_0.5.16-1.1_amd64.deb": b"munge" * 100_000,
    "openssh-client_1%3a10.0p1-7_amd64.deb": b"ssh",
    "slurmd_24.11.5-4+deb13u1_amd64.deb": b"slurmd" * 100_000,
}


def index_of(debs: Mapping[str, bytes]) -> str:
    """An index of these files, as far as slurmfab reads it."""
    return "\n".join(
        f"Package: {name.partition('_')[0]}\nVersion: 1\nInstalled-Size: 7\nFilename: ./{name}\nSize: {len(data)}\n"
        f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
        for name, data in debs.items()
    )


def signed(data: bytes) -> bytes:
    """The signature of the tests' own key for a bundle."""
    return sign(data, NAMESPACES["bundle"])


def saved(
    directory: Path,
    debs: Mapping[str, bytes] = DEBS,
    name: str = "bundle",
    sign: Callable[[bytes], bytes] = signed,
    **about: Any,
) -> Path:
    """A signed bundle of these files, with a manifest that fits them."""
    made = Archive(str(directory), name)
    for deb, content in debs.items():
        made.add(deb, content)
    made.add(INDEX, index_of(debs).encode())
    return Path(made.finish({**ABOUT, **about}, sign))
