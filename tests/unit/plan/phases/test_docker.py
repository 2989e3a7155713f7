"""Docker: its packages by release, and who is in its group."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.base.errors import ClusterFileError
from slurmfab.core.plan.phases import containers
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.people.group_members import GroupMembers

DOCKER = "containers: {use: [docker], docker: {users: [bob, ann]}}\n"
USERS = "users: [{name: ann}, {name: bob}]\n"


def wanted(more: str, **facts: object) -> PlanInput:
    return prepared_input(THREE_HOSTS + USERS + more, **facts)


@pytest.mark.parametrize(
    ("codename", "names"),
    [("bookworm", ("docker.io",)), ("trixie", ("docker.io", "docker-cli")), ("sid", ("docker.io", "docker-cli"))],
)
def test_the_client_is_a_package_of_its_own_since_debian_13(codename: str, names: tuple[str, ...]) -> None:
    assert containers.packages(wanted(DOCKER, codename=codename), "n1") == names


def test_the_users_of_the_file_are_in_the_group_whose_number_is_the_hosts() -> None:
    first, service = containers.resources(wanted(DOCKER), "n1")
    assert first == GroupMembers("docker", ("ann", "bob"))
    assert service.id == "service:docker"
    assert "docker.gid" not in wanted(DOCKER).lock.ids


def test_without_docker_nobody_is_in_its_group_because_of_the_file() -> None:
    assert containers.resources(wanted("", owned=("group-docker",)), "n1") == (GroupMembers("docker", ()),)
    assert containers.resources(wanted(""), "n1") == ()


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (DOCKER, "LaunchParameters=disable_send_gids,use_interactive_step"),
        (
            f"{DOCKER}slurm_conf: {{LaunchParameters: 'use_interactive_step,batch_step_set_cpu_freq'}}\n",
            "LaunchParameters=disable_send_gids,use_interactive_step,batch_step_set_cpu_freq",
        ),
        ("", "LaunchParameters=use_interactive_step"),
    ],
)
def test_nodes_look_up_the_groups_of_a_jobs_user_because_the_number_is_another_on_each(more: str, line: str) -> None:
    assert line in wanted(more).rendered["slurm.conf"].splitlines()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("containers: {use: [docker], docker: {users: [eve]}}", 'containers.docker.users[0]: "eve" is not in users'),
        ("containers: {use: [podman], docker: {users: [ann]}}", "it has options of docker, which is not in its list"),
        ("containers: {use: [docker], docker: {users: [Ann!]}}", "is not a login name"),
        (
            "users: [{name: ann, groups: [docker]}]",
            "could take over the host or the cluster; see containers.docker.users",
        ),
    ],
)
def test_what_names_the_wrong_users_is_refused(more: str, reason: str) -> None:
    users = "" if more.startswith("users") else USERS
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{users}{more}\n")
    assert reason in str(error.value)
