"""Check that a job can run a container: by each way of the cluster file, or by a runtime that a node has."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Callable, Mapping

import pytest

from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.oci import bundle_config
from slurmfab.commands.checks.container_ways import CALLS, make_script
from slurmfab.commands.quickcheck.bench import Bench, memory_for

JOB_MEMORY = 1024
"""MiB of memory for the job; unpacking an image needs most of it."""

RUNTIMES = ("enroot", "apptainer", "singularity", "podman")
LIST_RUNTIMES = (
    f"for name in {' '.join(RUNTIMES)}; do if command -v $name >/dev/null; then echo runtime=$name; fi; done; "
    "if srun --help 2>&1 | grep -q -e --container-image; then echo runtime=pyxis; fi; "
    "if command -v podman >/dev/null; then "
    "podman images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | grep -v '<none>' | sed 's/^/image=/;q'; fi"
)
"""Prints the runtimes in PATH of a job, and an image that podman already has."""

INSIDE = 'echo "inside $(uname -s)"'
EXPECTED_OUTPUT = "inside Linux"


OWN_ROOT = (
    'root=$(mktemp -d) && cd "$root" && mkdir usr proc sys dev etc tmp run && '
    "ln -s usr/bin bin && ln -s usr/lib lib && ln -s usr/lib64 lib64 && cd / && {run}; "
    'code=$?; rm -rf "$root" 2>/dev/null || podman unshare rm -rf "$root"; exit $code'
)
"""Runs something with a directory that is a root of programs of the node's own, once its /usr is mounted there: no
image is needed, and no network. What containers leave there may belong to subordinate IDs; podman removes that."""

BY_PODMAN = 'sdocker run --volume=/usr:/usr:ro --workdir=/ --rootfs "$root" sh -c {line}'


IN_BUNDLE = (
    'printf %s {config} >"$root/config.json" && '
    'env -u TMPDIR srun --overlap --mem=0 --nodes=1 --ntasks=1 --container="$root" sh -c {line}'
)
"""Makes a bundle of that root directory, and runs a step of the job in it."""

BY_DOCKER = (
    'image=$(tar -C "$root" -c . | docker import -) && '
    'docker run --rm --network=none --volume=/usr:/usr:ro "$image" sh -c {line}; '
    'code=$?; docker rmi --force "$image" >/dev/null 2>&1; (exit $code)'
)
"""Makes an image of that root directory, runs it, and removes it; the daemon sees the same files as the job."""


def ways(bench: Bench) -> tuple[str, ...]:
    """The ways of the cluster file that are tried one by one; none if an image was given."""
    containers = bench.cluster.containers
    return tuple(way for way in containers.use if way in WAYS) if containers and not bench.image else ()


def assert_runs(output: str, program: str, node: str) -> None:
    """Assert that a container of a program's has printed what it should.

    Raises:
        AssertionError: it has not; with the last line that was printed instead.
    """
    last = (output.strip().splitlines() or ["no output"])[-1][:200]
    assert EXPECTED_OUTPUT in output, (
        f"{program} ran a shell without the expected output: {last}. Repair: {FAB} deploy --hosts {node}"
    )


def by_podman(bench: Bench, node: str) -> str:
    """Run it by sdocker; the arguments, and what is returned and raised, are those of `by_image`."""
    memory = memory_for(bench.records()[node], JOB_MEMORY, 1)
    command = OWN_ROOT.format(run=BY_PODMAN.format(line=shlex.quote(INSIDE)))
    output = bench.run((node,), command, memory=memory)
    assert_runs(output, "sdocker", node)
    return "podman ran a shell with programs of the node"


def by_oci(bench: Bench, node: str) -> str:
    """Run it by Slurm's own containers; the arguments, and what is returned and raised, are those of `by_image`."""
    memory = memory_for(bench.records()[node], JOB_MEMORY, 1)
    run = IN_BUNDLE.format(config=shlex.quote(bundle_config(".", ("/usr",))), line=shlex.quote(INSIDE))
    # slurmd reads the bundle, and does not see the /tmp of the job where jobs have their own.
    output = bench.run((node,), f"export TMPDIR=/var/tmp; {OWN_ROOT.format(run=run)}", memory=memory)
    assert_runs(output, "srun --container", node)
    return "srun --container ran a shell with programs of the node"


def by_docker(bench: Bench, node: str) -> str:
    """Run it by Docker; the arguments, and what is returned and raised, are those of `by_image`."""
    containers = bench.cluster.containers
    users = containers.docker.users if containers else ()
    if bench.who.name not in users:
        pytest.skip(f"{bench.who.name} may not use Docker; try one of its users: --user {users[0]}.")
    memory = memory_for(bench.records()[node], JOB_MEMORY, 1)
    # The daemon does not see the /tmp of the job where jobs have their own.
    command = OWN_ROOT.format(run=BY_DOCKER.format(line=shlex.quote(INSIDE)))
    output = bench.run((node,), f"export TMPDIR=/var/tmp; {command}", memory=memory)
    assert_runs(output, "docker", node)
    return "docker ran a shell with programs of the node"


def by_root(bench: Bench, node: str, way: str) -> str:
    """Run it in a root directory that a job makes of the node's own programs, and another one removes.

    Args:
        way: a way of `checks.container_ways`.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError, pytest.skip.Exception: as for `by_image`.
    """
    memory = memory_for(bench.records()[node], JOB_MEMORY, 1)
    place = f"/var/tmp/slurmfab-image-{secrets.token_hex(6)}"  # noqa: S108 - its name is not to be guessed
    options, command = CALLS[way](place, INSIDE)
    try:
        bench.run((node,), make_script(place), memory=memory)
        output = bench.run((node,), command, memory=memory, options=options)
    finally:
        bench.run((node,), f"rm -rf {place}", memory=memory)
    assert_runs(output, way, node)
    return f"{way} ran a shell with programs of the node"


WAYS: Mapping[str, Callable[[Bench, str], str]] = {
    "podman": by_podman,
    "oci": by_oci,
    "docker": by_docker,
    "apptainer": lambda bench, node: by_root(bench, node, "apptainer"),
    "enroot": lambda bench, node: by_root(bench, node, "enroot"),
}
"""By way of the cluster file, the function that tries it, with the arguments of `by_image`."""


def by_image(bench: Bench, node: str) -> str:
    """Run a trivial command in a container on a node, by the first runtime that the node has.

    Returns:
        The text for the line of a passed check.

    Raises:
        AssertionError: the job failed, or the command did not print the expected output.
        pytest.skip.Exception: there is no runtime or no image, or other jobs use the resources.
    """
    memory = memory_for(bench.records()[node], JOB_MEMORY, 1)
    found = re.findall(r"^(\w+)=(.*)$", bench.run((node,), LIST_RUNTIMES, memory=memory), re.MULTILINE)
    there = {value for name, value in found if name == "runtime"}
    runtime = next((name for name in ("pyxis", *RUNTIMES[1:]) if name in there), "")
    if not runtime and "enroot" in there:
        pytest.skip(f"{node} has enroot, but srun there has no --container-image: pyxis is not in plugstack.conf.")
    if not runtime:
        pytest.skip(f"no container runtime (enroot with pyxis, apptainer, podman) on {node}.")
    image = bench.image or next((value for name, value in found if name == "image" and runtime == "podman"), "")
    if not image:
        pytest.skip(f"{node} has {runtime}, but no image was given: --image IMAGE.")
    options, command = call(runtime, image)
    output = bench.run((node,), command, memory=memory, options=options)
    assert EXPECTED_OUTPUT in output, (
        f"{runtime} ran {short(image)} without the expected output. Repair: try `{command}` in a job by hand"
    )
    return f"{runtime} ran a shell in {short(image)}"


def call(runtime: str, image: str) -> tuple[tuple[str, ...], str]:
    """Options of srun, and the shell command, with which a runtime runs `INSIDE` in an image."""
    if runtime == "pyxis":
        return (f"--container-image={image}", "--no-container-mount-home"), INSIDE
    line, place = shlex.quote(INSIDE), shlex.quote(image)
    if runtime == "podman":
        return (), f"podman run --rm --network=none {place} sh -c {line}"
    return (), f"{runtime} exec {place} sh -c {line}"


def short(image: str) -> str:
    """An image's name for a message, with long checksums shortened."""
    return re.sub(r"([0-9a-f]{12})[0-9a-f]{52}$", r"\1", image)
