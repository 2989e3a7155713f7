"""The quickcheck of containers by the ways of the cluster file: without an image, with programs of the node's own."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, cast

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.commands.quickcheck.bench import Bench
from slurmfab.commands.quickcheck.containers import WAYS, by_image, ways
from slurmfab.on_hosts.agent.nodes.user_jobs import Person

USERS = "users: [{name: ann, uid: 2001}, {name: bob, uid: 2002}]\n"


class Jobs:
    """Jobs that print something, and keep the command that they ran."""

    def __init__(self, printed: str, image: str = "", ways: str = "podman", more: str = "") -> None:
        self.cluster = cluster(f"{THREE_HOSTS}{more}containers: {{use: [{ways}]}}\n")
        self.who = Person("ann", "/home/ann")
        self.printed = printed
        self.image = image
        self.commands: list[str] = []

    def records(self) -> dict[str, dict[str, str]]:
        return {"n1": {"RealMemory": "8000", "CPUTot": "4"}}

    def run(self, _: Any, command: str, *, options: tuple[str, ...] = (), **__: Any) -> str:
        self.commands.append(" ".join((*options, command)))
        return self.printed

    @property
    def bench(self) -> Bench:
        return cast("Bench", self)


def test_podman_runs_a_shell_without_an_image() -> None:
    jobs = Jobs("inside Linux\n")
    assert ways(jobs.bench) == ("podman",)
    assert WAYS["podman"](jobs.bench, "n1") == "podman ran a shell with programs of the node"
    assert 'sdocker run --volume=/usr:/usr:ro --workdir=/ --rootfs "$root" sh -c' in jobs.commands[0]


def test_podman_without_the_output_fails_with_the_last_line() -> None:
    with pytest.raises(AssertionError, match="expected output: no subuid ranges"):
        WAYS["podman"](Jobs("Error:\nno subuid ranges\n").bench, "n1")


def test_slurms_own_containers_run_a_step_in_a_bundle_of_the_nodes_programs() -> None:
    jobs = Jobs("inside Linux\n", ways="podman, oci")
    assert ways(jobs.bench) == ("podman", "oci")
    assert WAYS["oci"](jobs.bench, "n1") == "srun --container ran a shell with programs of the node"
    made = jobs.commands[0]
    assert made.startswith("export TMPDIR=/var/tmp; root=$(mktemp -d)")
    words = shlex.split(made[made.index("printf") : made.index(">")])
    assert json.loads(words[2])["mounts"][-1]["destination"] == "/usr"


def test_slurms_own_containers_that_do_not_start_fail_with_the_last_line() -> None:
    with pytest.raises(AssertionError, match="srun --container ran a shell without the expected output: crun: no"):
        WAYS["oci"](Jobs("crun: no\n", ways="oci").bench, "n1")


def test_docker_runs_an_image_of_the_nodes_programs_and_removes_it() -> None:
    jobs = Jobs("inside Linux\n")
    jobs.cluster = cluster(f"{THREE_HOSTS}{USERS}containers: {{use: [docker], docker: {{users: [ann]}}}}\n")
    assert WAYS["docker"](jobs.bench, "n1") == "docker ran a shell with programs of the node"
    assert "docker import -) && docker run --rm --network=none --volume=/usr:/usr:ro" in jobs.commands[0]
    assert 'docker rmi --force "$image"' in jobs.commands[0]


def test_docker_for_a_user_who_may_not_use_it_is_not_run_and_names_one_who_may() -> None:
    jobs = Jobs("")
    jobs.cluster = cluster(f"{THREE_HOSTS}{USERS}containers: {{use: [docker], docker: {{users: [bob]}}}}\n")
    with pytest.raises(pytest.skip.Exception, match="ann may not use Docker; try one of its users: --user bob"):
        WAYS["docker"](jobs.bench, "n1")
    assert jobs.commands == []


def test_an_image_is_run_by_the_runtime_of_the_node() -> None:
    jobs = Jobs("runtime=podman\ninside Linux\n", image="tiny")
    assert ways(jobs.bench) == ()
    assert by_image(jobs.bench, "n1") == "podman ran a shell in tiny"


@pytest.mark.parametrize(
    ("way", "start"),
    [
        ("enroot", r"--container-image=/var/tmp/slurmfab-image-\w+/image.sqsh --no-container-mount-home echo"),
        ("apptainer", r"apptainer exec --nv --no-home --pwd=/ /var/tmp/slurmfab-image-\w+/root sh -c"),
    ],
)
@pytest.mark.parametrize("printed", ["inside Linux\n", "cannot start\n"])
def test_enroot_and_apptainer_run_a_shell_in_a_root_directory_that_goes(way: str, start: str, printed: str) -> None:
    jobs = Jobs(printed, ways=way, more="packages: {all: [enroot, nvslurm-plugin-pyxis, apptainer]}\n")
    if "inside" in printed:
        assert WAYS[way](jobs.bench, "n1") == f"{way} ran a shell with programs of the node"
    else:
        with pytest.raises(AssertionError, match=f"{way} ran a shell without the expected output: cannot start"):
            WAYS[way](jobs.bench, "n1")
    made, run, removed = jobs.commands
    assert "mksquashfs" in made
    assert re.match(start, run)
    assert re.fullmatch(r"rm -rf /var/tmp/slurmfab-image-\w+", removed)
