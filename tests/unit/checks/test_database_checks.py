"""What the checks of the accounting database find, and how they say it."""

from __future__ import annotations

from typing import Any

import pytest
from support import THREE_HOSTS

from slurmfab.cluster.inventory import loading
from slurmfab.commands.checks import test_database as database_checks
from slurmfab.commands.checks.applies import Drifted
from slurmfab.commands.checks.hosts import CheckedHost

ACCOUNTED = loading.parse(f"{THREE_HOSTS}database: c1\n", "cluster.yaml")


@pytest.mark.parametrize(
    ("places", "exposed"),
    [
        (["127.0.0.1:3306", "0.0.0.0:6819"], []),
        (["[::1]:3306", "::1:3306"], []),
        (["0.0.0.0:3306"], ["0.0.0.0:3306"]),
        ([":::3306", "10.0.0.1:3306"], [":::3306", "10.0.0.1:3306"]),
        (["10.0.0.1:33060"], []),
    ],
)
def test_a_database_server_is_exposed_where_others_reach_its_port(places: list[str], exposed: list[str]) -> None:
    assert database_checks.exposures(places, 3306) == exposed


@pytest.mark.parametrize(
    ("access", "words"),
    [("slurm slurm 600", ""), ("slurm slurm 644", "slurm:slurm 0644"), ("root root 600", "root:root 0600")],
)
def test_the_password_is_told_of_when_others_than_slurm_could_read_it(
    shells: dict[str, Any], access: str, words: str
) -> None:
    user, group, mode = access.split()
    shell = shells["ctl"]
    shell.rules["test -e"] = ""
    shell.rules["stat -Lc %U"] = f"{user}\n"
    shell.rules["stat -Lc %G"] = f"{group}\n"
    shell.rules["stat -Lc %a"] = f"{mode}\n"
    host = CheckedHost("ctl", shell)
    if not words:
        database_checks.test_password_is_slurms_alone(host, ACCOUNTED)
        return
    with pytest.raises(Drifted) as caught:
        database_checks.test_password_is_slurms_alone(host, ACCOUNTED)
    assert words in str(caught.value)
