"""A container in a job, by whichever runtime is there: enroot with pyxis, Apptainer, Singularity, Podman."""

from __future__ import annotations

import re
import shlex

import pytest

from slurmfab.quickcheck.bench import Bench, memory_for

MEMORY = 1024
"""MiB: to unpack an image takes more than to run what is in it."""

RUNTIMES = ("enroot", "apptainer", "singularity", "podman")
LOOK = (
    f"for name in {' '.join(RUNTIMES)}; do if command -v $name >/dev/null; then echo runtime=$name; fi; done; "
    "if srun --help 2>&1 | grep -q -e --container-image; then echo runtime=pyxis; fi; "
    "if command -v podman >/dev/null; then "
    "podman images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | grep -v '<none>' | sed 's/^/image=/;q'; fi"
)
"""Prints the runtimes that a job finds, and an image that podman has already."""

INSIDE = 'echo "inside $(uname -s)"'
ANSWER = "inside Linux"


def container(bench: Bench, node: str) -> str:
    """Run something trivial in a container on a node.

    Returns:
        What was seen.

    Raises:
        AssertionError: the runtime is there and did not run it.
        pytest.skip.Exception: there is no runtime or no image, or other jobs are in the way.
    """
    memory = memory_for(bench.records()[node], MEMORY, 1)
    found = re.findall(r"^(\w+)=(.*)$", bench.run((node,), LOOK, memory=memory), re.MULTILINE)
    there = {value for name, value in found if name == "runtime"}
    runtime = next((name for name in ("pyxis", *RUNTIMES[1:]) if name in there), "")
    if not runtime and "enroot" in there:
        pytest.skip(f"{node} has enroot, but srun there has no --container-image: pyxis is not in plugstack.conf.")
    if not runtime:
        pytest.skip(f"no container runtime (enroot with pyxis, apptainer, podman) on {node}.")
    image = bench.image or next((value for name, value in found if name == "image" and runtime == "podman"), "")
    if not image:
        pytest.skip(f"{node} has {runtime}; name an image to try it: --image IMAGE.")
    options, command = call(runtime, image)
    said = bench.run((node,), command, memory=memory, options=options)
    assert ANSWER in said, (
        f"nothing came out of {runtime} with {short(image)}. Repair: try `{command}` in a job by hand"
    )
    return f"{runtime} ran a shell in {short(image)}"


def call(runtime: str, image: str) -> tuple[tuple[str, ...], str]:
    """Options of srun and the command by which a runtime runs our line in an image."""
    if runtime == "pyxis":
        return (f"--container-image={image}", "--no-container-mount-home"), INSIDE
    line, place = shlex.quote(INSIDE), shlex.quote(image)
    if runtime == "podman":
        return (), f"podman run --rm --network=none {place} sh -c {line}"
    return (), f"{runtime} exec {place} sh -c {line}"


def short(image: str) -> str:
    """An image's name for a message; long sums are cut."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}$", r"\1", image)
