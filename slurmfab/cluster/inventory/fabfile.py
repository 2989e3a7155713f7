"""The `fabfile.py` beside `configs/`, by which `fab` finds the tasks in the directory where people work."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError

DIRECTORY = "configs"  # the name of the directory for cluster files; fabfiles belong beside directories of this name

TEXT = '''\
"""The tasks of slurmfab, and those of this site, for `fab` and `slurmfab`."""
import sys

here = sys.path.pop(0)  # Fabric puts this directory first, where a file could have the name of any module

from fabric import task  # noqa: E402, F401
from slurmfab import namespace  # noqa: E402, F401

sys.path.append(here)

# A task of your own, called by `fab hello` and, on hosts, by `fab -H n1,n2 hello`:
#
# @task
# def hello(c):
#     """Say hello."""
#     c.run("echo hello from $(hostname)")
#
# namespace.add_task(hello)
'''


def provide(cluster_file: Path) -> str:
    """Write a fabfile beside `configs/` for a cluster file in it, if there is none; tells so, or is empty."""
    if cluster_file.parent.name != DIRECTORY:
        return ""
    directory = cluster_file.parent.parent
    path = directory / "fabfile.py"
    if any(os.path.lexists(directory / name) for name in ("fabfile.py", "fabfile")):
        return ""
    try:
        atomic_file.write(path, TEXT, new=atomic_file.READABLE_BY_ALL)
    except InputError:
        return f"{path} cannot be written, so `fab` does not work in that directory; `slurmfab` does."
    if shutil.which("slurmfab") and not shutil.which("fab"):
        return f"Wrote {path}, for those who have `fab`; here, as after pipx install, it is `slurmfab`."
    return f"Wrote {path}: `fab` works in that directory now."
