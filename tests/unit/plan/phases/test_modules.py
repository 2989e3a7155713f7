"""The command `module`: which hosts get it, what login shells read, and how one package follows the other."""

from __future__ import annotations

import subprocess

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.base.paths import MODULES_PROFILE
from slurmfab.core.plan.phases import modules, packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import software
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages

LMOD = "modules: {system: lmod, path: [/sw/a, /sw/b]}\n"
HOSTS = "login: [l1]\ndatabase: d1\n"


def wanted(more: str, **facts: object) -> PlanInput:
    return prepared_input(THREE_HOSTS + HOSTS + more, **facts)


def profile(more: str) -> str:
    (one,) = modules.resources(wanted(more), "n1")
    assert isinstance(one, OwnedFiles)
    return one.by_path()[MODULES_PROFILE].text


@pytest.mark.parametrize(("host", "has_it"), [("c1", True), ("n1", True), ("l1", True), ("d1", False)])
def test_hosts_on_which_people_or_jobs_work_get_it(host: str, has_it: bool) -> None:
    assert modules.packages(wanted(LMOD), host) == (("lmod",) if has_it else ())
    assert bool(modules.resources(wanted(LMOD), host)) == has_it


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "/sw/a:/sw/b"),
        ("/etc/lmod/modules", "/sw/a:/sw/b:/etc/lmod/modules"),
        ("/sw/a:/sw/b:/own", "/sw/a:/sw/b:/own"),
    ],
)
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_directories_come_first_in_their_order_and_once(shell: str, before: str, after: str) -> None:
    script = f"set -eu\n{profile(LMOD)}\necho $MODULEPATH $BASH_ENV"
    done = subprocess.run([shell, "-c", script], env={"MODULEPATH": before}, capture_output=True, check=True)
    assert done.stdout.decode().split() == [after, "/usr/share/lmod/lmod/init/bash"]


def test_without_the_key_the_file_goes_where_it_still_is() -> None:
    assert modules.resources(wanted("", owned=("modules",)), "n1") == (OwnedFiles("modules", ()),)
    assert modules.resources(wanted(""), "n1") == ()


def test_the_other_package_goes_before_if_slurmfab_installed_it() -> None:
    both = {"packages": {"environment-modules": "5", "slurm-client": "24.11.5-1"}}
    first, *_ = packages.resources(wanted(LMOD, added_packages=("environment-modules",), **both), "n1")
    assert first == FormerPackages(("environment-modules",))
    assert len(packages.resources(wanted(LMOD, **both), "n1")) == 1
    software.refuse_unfit(wanted(LMOD, added_packages=("environment-modules",), **both))


def test_the_other_package_of_somebody_else_is_refused_with_its_hosts() -> None:
    both = {"environment-modules": "5", "slurm-client": "24.11.5-1"}
    with pytest.raises(InputError, match=r"c1,l1,n\[1-2\]: modules: it has environment-modules"):
        software.refuse_unfit(wanted(LMOD, packages=both))
    software.refuse_unfit(wanted("", packages=both))
