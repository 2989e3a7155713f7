"""The small rules inside the phases; which resources they make is told by the tables of test_plan."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.core.plan.phases import slurm_conf, ssh
from slurmfab.core.plan.plan import make_plan
from slurmfab.core.plan.plan_input import is_numeric
from slurmfab.on_hosts.agent.kinds import KINDS


@pytest.mark.parametrize(
    ("address", "numeric"),
    [("10.0.0.1", True), ("fd00::1", True), ("n1.example.org", False), ("n1", False), ("", False)],
)
def test_only_ip_addresses_go_into_the_hosts_file(address: str, numeric: bool) -> None:
    assert is_numeric(address) is numeric


def test_logins_go_between_the_controller_and_everybody_else_and_no_further() -> None:
    wanted = prepared_input()
    assert ssh.others(wanted, "c1") == ("n1", "n2")
    assert ssh.others(wanted, "n1") == ("c1",)


def test_a_key_that_is_let_in_runs_commands_without_terminal_or_forwarding() -> None:
    wanted = prepared_input()
    assert ssh.authorized(wanted, "n1").split()[0] == 'restrict,from="10.0.0.2"'


def test_the_state_directory_with_job_scripts_is_the_slurm_users_alone() -> None:
    wanted = prepared_input()
    (state,) = (one for one in slurm_conf.directories(wanted, "c1") if one.id == "directory:/var/lib/slurm/slurmctld")
    assert (vars(state)["owner"], vars(state)["mode"]) == ("slurm", 0o700)


def test_every_planned_resource_is_of_a_kind_that_the_agent_knows() -> None:
    plan = make_plan(prepared_input(), cluster().hosts)
    assert {resource.kind for host in plan.hosts for _, resource in plan.of_host(host)} <= set(KINDS)


ENFORCING = THREE_HOSTS + "database: c1\naccounts: [{name: physics}]\n"


def test_the_script_for_jobs_is_on_the_controller_before_the_slurm_conf_that_names_it() -> None:
    wanted = prepared_input(ENFORCING)
    ids = [one.id for one in slurm_conf.resources(wanted, "c1")]
    assert ids.index("file:/etc/slurm/job_submit.lua") < ids.index("slurm-files:/etc/slurm")
    assert "file:/etc/slurm/job_submit.lua" not in [one.id for one in slurm_conf.resources(wanted, "n1")]
    assert "JobSubmitPlugins=lua" in dict(wanted.files)["slurm.conf"].splitlines()


def test_plugins_of_the_users_own_are_not_given_a_script_of_ours() -> None:
    wanted = prepared_input(ENFORCING + "slurm_conf: {JobSubmitPlugins: lua}\n")
    assert "file:/etc/slurm/job_submit.lua" not in [one.id for one in slurm_conf.resources(wanted, "c1")]
