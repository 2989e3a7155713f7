"""Owners and permissions of files and directories, as a rehearsal of an import asks for them."""

from __future__ import annotations

import getpass
import grp
import json
import os
from pathlib import Path

from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.files.owners import DIRECTORY, FILE, Owned, read


def test_the_directories_above_a_path_come_first_and_what_is_missing_or_a_link_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "var/log/slurm.log").touch()
    (tmp_path / "var/log/slurm.log").chmod(0o640)
    (tmp_path / "var/log").chmod(0o750)
    (tmp_path / "var").chmod(0o755)
    (tmp_path / "var/link").symlink_to("log")
    paths = ["/var/log/slurm.log", "/var/log/none", "/var/link", "/var/log/slurm.log/below"]
    said = json.loads(json.dumps(read({"paths": paths}, Context("/"))))
    assert said[0][0] == "/var"
    found = read({"paths": [f"{tmp_path}{path}" for path in paths]}, Context("/"))
    user, group = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    assert [one for one in found if one.path.startswith(f"{tmp_path}/")] == [
        Owned(f"{tmp_path}/var", DIRECTORY, user, group, 0o755),
        Owned(f"{tmp_path}/var/log", DIRECTORY, user, group, 0o750),
        Owned(f"{tmp_path}/var/log/slurm.log", FILE, user, group, 0o640),
    ]
    assert answer_value("n1", ({"owners": json.loads(json.dumps(found))},), "owners")
