"""The text of oci.conf: the programs that slurmstepd runs for containers (oci.conf(5))."""

from __future__ import annotations

import json
from collections.abc import Iterable

from slurmfab.base.paths import OCI_PROGRAM
from slurmfab.cluster.slurm.render import fill
from slurmfab.cluster.slurm.versions import SlurmVersion

PYTHON = "/usr/bin/python3 -E -S -s -B"  # without what a user's environment or home could add

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def oci_conf(version: SlurmVersion, variables: Iterable[str] = ()) -> str:
    """The text of oci.conf; containers see these variables beside TMPDIR, which name directories of the job."""
    names = ",".join(dict.fromkeys(("TMPDIR", *variables)))
    known = (version.major, version.minor)
    return fill("oci.conf", {"program": f"{PYTHON} {OCI_PROGRAM}/run.py", "variables": names, "version": known})


def bundle_config(root: str, mounts: Iterable[str] = ()) -> str:
    """The config.json of a bundle without an image, for checks: the JSON text.

    Args:
        root: path of the root directory, relative to the bundle.
        mounts: directories of the host that the container reads, at the same paths.
    """
    found = {
        "ociVersion": "1.0.0",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": [f"PATH={PATH}"], "cwd": "/"},
        "root": {"path": root},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            *({"destination": path, "type": "bind", "source": path, "options": ["rbind", "ro"]} for path in mounts),
        ],
        "linux": {"namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount", "user")]},
    }
    return json.dumps(found)
