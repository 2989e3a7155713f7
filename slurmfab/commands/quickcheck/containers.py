"""Check that a job can run a container: by each way of the cluster file, or by a runtime that a node has."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Mapping

import pytest

from slurmfab.base.program_name import FAB
from slurmfab.cluster.slurm.oci import bundle_config
from slurmfab.commands.checks.container_ways import CALLS, make_script
from slurmfab.commands.quickcheck.bench import Bench, Work, memory_for

JOB_MEMORY = 1024  # MiB of memory for the job; unpacking an image needs most of it

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
    return () if bench.image else tuple(way for way in bench.cluster.container_ways if way in WAYS)


def checked(output: str, program: str, node: str) -> str:
    """The text of a passed check; AssertionError, with the last line, if the container printed something else."""
    last = (output.strip().splitlines() or ["no output"])[-1][:200]
    assert EXPECTED_OUTPUT in output, (
        f"{program} ran a shell without the expected output: {last}. Repair: {FAB} deploy --hosts {node}"
    )
    return f"{program} ran a shell with programs of the node"


def memory(bench: Bench, node: str) -> int:
    """MiB of memory for the job."""
    return memory_for(bench.records()[node], JOB_MEMORY, 1)


def in_own_root(bench: Bench, node: str, run: str, directory: str = "") -> str:
    """The output of what runs with a root directory of the node's own programs.

    Args:
        run: what runs; `{line}` is the command in the container.
        directory: where the root directory is made; empty for the job's own.
    """
    command = OWN_ROOT.replace("{run}", run.replace("{line}", shlex.quote(INSIDE)))
    place = f"export TMPDIR={directory}; " if directory else ""
    return bench.run((node,), f"{place}{command}", memory=memory(bench, node))


def by_podman(bench: Bench, node: str) -> str:
    """Run it by sdocker."""
    return checked(in_own_root(bench, node, BY_PODMAN), "sdocker", node).replace("sdocker", "podman")


def by_oci(bench: Bench, node: str) -> str:
    """Run it by Slurm's own containers: slurmd reads the bundle, and does not see a /tmp of the job's own."""
    run = IN_BUNDLE.replace("{config}", shlex.quote(bundle_config(".", ("/usr",))))
    return checked(in_own_root(bench, node, run, "/var/tmp"), "srun --container", node)  # noqa: S108


def by_docker(bench: Bench, node: str) -> str:
    """Run it by Docker, whose daemon does not see a /tmp of the job's own."""
    containers = bench.cluster.containers
    users = containers.docker.users if containers else ()
    if bench.who.name not in users:
        pytest.skip(f"{bench.who.name} may not use Docker; try one of its users: --user {users[0]}.")
    return checked(in_own_root(bench, node, BY_DOCKER, "/var/tmp"), "docker", node)  # noqa: S108


def by_root(bench: Bench, node: str, way: str) -> str:
    """Run it by a way of `checks.container_ways`, in a root directory that a job makes and another one removes."""
    size = memory(bench, node)
    place = f"/var/tmp/slurmfab-image-{secrets.token_hex(6)}"  # noqa: S108 - its name is not to be guessed
    options, command = CALLS[way](place, INSIDE)
    try:
        bench.run((node,), make_script(place), memory=size)
        output = bench.run((node,), command, memory=size, options=options)
    finally:
        bench.run((node,), f"rm -rf {place}", memory=size)
    return checked(output, way, node)


WAYS: Mapping[str, Work] = {
    "podman": by_podman,
    "oci": by_oci,
    "docker": by_docker,
    "apptainer": lambda bench, node: by_root(bench, node, "apptainer"),
    "enroot": lambda bench, node: by_root(bench, node, "enroot"),
}
"""By way of the cluster file, the check that tries it."""


def by_image(bench: Bench, node: str) -> str:
    """Run a trivial command in a container on a node, by the first runtime that the node has."""
    size = memory(bench, node)
    found = re.findall(r"^(\w+)=(.*)$", bench.run((node,), LIST_RUNTIMES, memory=size), re.MULTILINE)
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
    output = bench.run((node,), command, memory=size, options=options)
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
