"""Files that somebody leaves in the directory where an administrator works: they have the names of modules, programs
and settings, and note that they were run."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

SOUGHT = ("gssapi", "sspi", "sitecustomize", "usercustomize", "conftest", "email_validator", "ansible", "salt", "winrm",
          "colorama", "decorator", "fabric_config", "checks", "slurmfab", "readline", "lxml", "xdist")  # fmt: skip
"""Modules beside those that are installed: what libraries look for and do without, and what Python loads by itself."""

PROGRAMS = ("ssh", "ssh-keygen", "ssh-add", "git", "sh", "bash", "python3", "systemctl", "systemd-analyze", "age",
            "timedatectl", "nsenter", "setpriv", "ip", "nft", "findmnt", "dpkg-deb", "sendmail", "less")  # fmt: skip
SETTINGS = {
    "pytest.ini": "[pytest]\naddopts = -p planted\n",
    "tox.ini": "[pytest]\naddopts = -p planted\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p planted'\n",
    "fabric.yaml": "tasks: {executor_class: planted.Executor}\n",
    "invoke.yaml": "tasks: {executor_class: planted.Executor}\n",
    "planted-1.dist-info/entry_points.txt": "[pytest11]\nplanted = planted\n[pydantic]\nplanted = planted\n",
    "planted-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: planted\nVersion: 1\n",
    "planted.pth": "import planted\n",
    "pyvenv.cfg": "home = .\n",
}


@dataclass(frozen=True)
class Planted:
    """The directory, and the file in which what was run is noted."""

    directory: Path
    note: Path

    @property
    def was_run(self) -> list[str]:
        return self.note.read_text().splitlines() if self.note.exists() else []

    def environment(self) -> dict[str, str]:
        """An environment that looks for programs in the working directory as well, and has pytest load a plugin."""
        path = f".:{os.environ['PATH']}:"
        more = {"PATH": path, "PYTEST_ADDOPTS": "-p planted", "PYTEST_PLUGINS": "planted", "SLURMFAB_CLUSTER": ""}
        return {**os.environ, **more, "HOME": str(self.directory / "home"), "XDG_CACHE_HOME": ""}


def planted(directory: Path) -> Planted:
    """Fill a directory; each module fails, so that who loads one is found out even if the note were lost."""
    found = Planted(directory, directory.with_name(f"{directory.name}.note"))
    directory.mkdir(exist_ok=True)
    code = f"open({str(found.note)!r}, 'a').write(__name__ + '\\n')\nraise RuntimeError('planted')\n"
    for name in {*sys.stdlib_module_names, *metadata.packages_distributions(), *SOUGHT, "planted", "fabric"}:
        (directory / f"{name}.py").write_text(code)
    for name in PROGRAMS:
        (directory / name).write_text(f"#!/bin/sh\necho {name} >>{found.note}\nexit 1\n")
        (directory / name).chmod(0o755)
    for name, text in SETTINGS.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    (directory / "home").mkdir(exist_ok=True)
    return found
