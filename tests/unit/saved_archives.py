"""Archives to test with, made by the code that makes real ones."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support import THREE_HOSTS

from slurmfab.on_hosts.agent.backup.archive import CLUSTER_FILE, DATABASE, FILES, KEY, LOCK, STATE, Archive

CLUSTER_TEXT = f"{THREE_HOSTS}database: c1\n"
ABOUT = {
    "cluster": "lab",
    "made": "2026-11-21T14:32:00+00:00",
    "by": "ann@laptop",
    "slurm": "24.11.5",
    "next_job_id": 18,
    "jobs": [16, 17],
    "left_out": {},
}
LOCK_TEXT = json.dumps({"version": 1, "slurm": "24.11.5", "ids": {}, "hosts": {}})


def compressed_tar(files: Mapping[str, bytes], *more: tarfile.TarInfo) -> bytes:
    """A compressed tar of these files, and of other members without content."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o600
            tar.addfile(info, io.BytesIO(content))
        for info in more:
            tar.addfile(info)
    return made.getvalue()


PARTS = {
    CLUSTER_FILE: CLUSTER_TEXT.encode(),
    LOCK: LOCK_TEXT.encode(),
    KEY: b"k" * 128,
    FILES: compressed_tar({"slurm.conf": b"ClusterName=lab\n", "topology.conf": b"SwitchName=s1\n"}),
    STATE: compressed_tar({"job_state": b"jobs", "hash.7/job.17/script": b"#!/bin/sh\n"}),
    DATABASE: gzip.compress(b"create table x;\n", mtime=0),
}


def archive(
    directory: Path,
    parts: Mapping[str, bytes] = PARTS,
    sign: Callable[[bytes], bytes] | None = None,
    recipients: tuple[str, ...] = (),
    **about: Any,
) -> Path:
    """An archive of these parts, with a manifest that fits them; encrypted to public keys, if there are some."""
    made = Archive(str(directory), "lab-20261121T143200Z", recipients=recipients)
    for name, content in parts.items():
        made.add(name, content)
    return Path(made.finish({**ABOUT, **about}, sign))
