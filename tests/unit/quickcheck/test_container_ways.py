"""The quickcheck of containers by the ways of the cluster file: without an image, with programs of the node's own."""

from __future__ import annotations

from typing import Any, cast

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.quickcheck.bench import Bench
from slurmfab.quickcheck.containers import container


class Jobs:
    """Jobs that print something, and keep the command that they ran."""

    def __init__(self, printed: str, image: str = "") -> None:
        self.cluster = cluster(f"{THREE_HOSTS}containers: [podman]\n")
        self.printed = printed
        self.image = image
        self.commands: list[str] = []

    def records(self) -> dict[str, dict[str, str]]:
        return {"n1": {"RealMemory": "8000", "CPUTot": "4"}}

    def run(self, _: Any, command: str, **__: Any) -> str:
        self.commands.append(command)
        return self.printed

    @property
    def bench(self) -> Bench:
        return cast("Bench", self)


def test_podman_runs_a_shell_without_an_image() -> None:
    jobs = Jobs("inside Linux\n")
    assert container(jobs.bench, "n1") == "podman ran a shell with programs of the node"
    assert 'sdocker run --volume=/usr:/usr:ro --workdir=/ --rootfs "$root" sh -c' in jobs.commands[0]


def test_podman_without_the_output_fails_with_the_last_line() -> None:
    with pytest.raises(AssertionError, match="expected output: no subuid ranges"):
        container(Jobs("Error:\nno subuid ranges\n").bench, "n1")


def test_an_image_is_run_by_the_runtime_of_the_node() -> None:
    jobs = Jobs("runtime=podman\ninside Linux\n", image="tiny")
    assert container(jobs.bench, "n1") == "podman ran a shell in tiny"
