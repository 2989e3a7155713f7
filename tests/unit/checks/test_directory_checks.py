"""The check of the daemons' directories: owners, and links that other users can change."""

from __future__ import annotations

import pytest
from ruled_shells import RuledShell

from slurmfab.checks.directories import wrong_directories
from slurmfab.checks.hosts import CheckedHost
from slurmfab.paths import SLURM_SPOOL

STATE = "/var/lib/slurm/slurmctld"
TOP = "drwxr-xr-x root  root  /\ndrwxr-xr-x root  root  var\ndrwxr-xr-x root  root  lib\n"
WAY = f"{TOP}drwxr-xr-x slurm slurm slurm\n"
BIN = "drwxr-xr-x root  root    /\ndrwxr-xr-x root  root    bin\n"
LINK = f"{STATE} leads through a symbolic link of"


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        pytest.param(f"{WAY}drwx------ slurm slurm slurmctld\n", "", id="slurm's"),
        pytest.param(
            f"{WAY}                       slurmctld - No such file or directory\n", f"there is no {STATE}", id="missing"
        ),
        pytest.param("", "", id="without namei"),
        pytest.param(
            f"{TOP}lrwxrwxrwx root root slurm -> /disk\n{BIN}drwx------ slurm slurm slurmctld\n", "", id="link of root"
        ),
        pytest.param(f"{WAY}drwx------ root root slurmctld\n", f"{STATE} belongs to root, not to slurm", id="root's"),
        pytest.param(
            f"{TOP}drwx------ root  root  slurm\ndrwx------ slurm slurm slurmctld\n",
            "slurm cannot pass /var/lib/slurm (drwx------ of root:root)",
            id="closed on the way",
        ),
        pytest.param(
            f"{TOP}drwxr-x--- root  slurm slurm\ndrwx------ slurm slurm slurmctld\n", "", id="open for slurm's group"
        ),
        pytest.param(
            f"{WAY}drwxrwxrwx slurm slurm slurmctld\n",
            f"others than slurm may write to {STATE} (drwxrwxrwx)",
            id="open for all",
        ),
        pytest.param(
            f"{WAY}lrwxrwxrwx slurm slurm slurmctld -> /usr/local/bin\n{BIN}",
            f"{LINK} slurm, slurmctld -> /usr/local/bin, which slurm can change",
            id="link of slurm",
        ),
        pytest.param(
            f"{WAY}lrwxrwxrwx root root slurmctld -> /bin\n{BIN}",
            f"{LINK} root, slurmctld -> /bin, which slurm can change",
            id="link of root in slurm's directory",
        ),
        pytest.param(
            f"{TOP.replace('drwxr-xr-x root  root  lib', 'drwxrwxr-x root  staff lib')}"
            f"lrwxrwxrwx root root slurm -> /bin\n{BIN}",
            f"{LINK} root, slurm -> /bin, which others than root can change",
            id="link in a directory of a group",
        ),
    ],
)
def test_a_directory_is_wrong_if_it_is_another_users_or_a_link_of_another_user_leads_there(
    shown: str, wrong: str
) -> None:
    host = CheckedHost("ctl", RuledShell({"namei": f"f: {STATE}\n{shown}"}))
    assert wrong_directories(host, {STATE: "slurm"}) == ([wrong] if wrong else [])


def test_a_spool_directory_that_jobs_cannot_pass_is_wrong() -> None:
    way = f"{WAY}drwx------ root  root  slurmd\n"
    host = CheckedHost("n1", RuledShell({"namei": f"f: {SLURM_SPOOL}\n{way}"}))
    assert wrong_directories(host, {SLURM_SPOOL: "root"}) == [
        "jobs cannot read their scripts in /var/lib/slurm/slurmd (drwx------)"
    ]
