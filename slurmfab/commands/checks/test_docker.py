"""Checks of Docker: its daemon answers, and its group, whose members are as good as root, has nobody else."""

from __future__ import annotations

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy


def test_docker_answers(docker_host: CheckedHost) -> None:
    """the daemon of Docker answers"""
    done = docker_host.run("timeout 10 docker version --format '{{.Server.Version}}'")
    assert done.rc == 0, (
        f"Docker does not answer: {last_words(done)}. Repair: {deploy(docker_host.name)}; then see "
        f"`systemctl status docker` on {docker_host.name}"
    )


def test_docker_is_for_its_users_alone(docker_host: CheckedHost, cluster: Cluster) -> None:
    """the group docker has the users of the cluster file and nobody else"""
    assert cluster.containers is not None, "the argument asks for it"
    there, wanted = set(docker_host.group("docker").members), set(cluster.containers.docker.users)
    strange, lacking = sorted(there - wanted), sorted(wanted - there)
    assert not strange, (
        f"{', '.join(strange[:5])} can use Docker, and so become root, and is not in containers.docker.users. Repair: "
        f"gpasswd --delete {strange[0]} docker on {docker_host.name}, or name the user there"
    )
    assert not lacking, f"{', '.join(lacking[:5])} cannot use Docker. Repair: {deploy(docker_host.name)}"
