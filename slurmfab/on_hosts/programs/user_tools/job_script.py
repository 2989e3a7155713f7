"""The text of a submit script from a few answers, as a page for browsers makes it, too."""

from __future__ import annotations

import re
from typing import Dict, Mapping, NamedTuple, Tuple

PLAIN = re.compile(r"[A-Za-z0-9_.,:%@/+=\[\]-]+")  # values of options that need no quotes
COMPOUND = re.compile(r"[;&|<>()\n]")  # characters that only a shell understands

CALLS: Mapping[str, str] = {
    "podman": "sdocker run %s",
    "enroot": "--container-image=%s",
    "oci": "--container=%s",
    "apptainer": "apptainer exec --nv %s",
}
"""By way of running containers, what stands before the command; options are those of srun."""


class JobOptions(NamedTuple):
    """What a job is to have; an empty text and 0 leave an option out."""

    command: str
    name: str = ""
    partition: str = ""  # where it runs
    account: str = ""  # whom it is charged to
    qos: str = ""
    nodes: int = 0
    tasks: int = 0  # number of processes on all nodes together
    cpus: int = 0
    memory: str = ""  # of a node, such as `16G`
    gpus: int = 0
    gpu_type: str = ""
    scratch: int = 0  # GB of a node
    time: str = ""  # limit, as Slurm writes it: `1-12:00:00` or `02:00:00`
    array: str = ""  # indices, such as `0-9%2`
    mail: str = ""
    modules: Tuple[str, ...] = ()  # names of modules to load
    way: str = ""  # a way of running containers, which is one of CALLS
    image: str = ""


def script(job: JobOptions) -> str:
    """The text of a submit script."""
    lines = ["#!/bin/bash -l" if job.modules else "#!/bin/bash"]
    lines += ["#SBATCH --%s=%s" % (name, quoted(value)) for name, value in directives(job).items() if value]
    lines += ["", "set -e"]
    lines += ["module load " + " ".join(map(word, job.modules))] if job.modules else []
    return "\n".join([*lines, "", call(job), ""])


def directives(job: JobOptions) -> Dict[str, str]:
    """Options of sbatch and their values, in the order of the script; empty values are left out."""
    gpus = "gpu:%s:%d" % (job.gpu_type, job.gpus) if job.gpu_type else "gpu:%d" % job.gpus
    gres = [gpus] * (job.gpus > 0) + ["scratch:%d" % job.scratch] * (job.scratch > 0)
    return {
        "job-name": job.name,
        "partition": job.partition,
        "account": job.account,
        "qos": job.qos,
        "nodes": number(job.nodes),
        "ntasks": number(job.tasks),
        "cpus-per-task": number(job.cpus),
        "mem": job.memory,
        "gres": ",".join(gres),
        "time": job.time,
        "array": job.array,
        "output": "%x-%A_%a.out" if job.array else "%x-%j.out",
        "mail-user": job.mail,
        "mail-type": "END,FAIL" if job.mail else "",
    }


def number(value: int) -> str:
    """A number as text; empty for 0."""
    return str(value) if value else ""


def call(job: JobOptions) -> str:
    """The command, in its container and on all tasks."""
    before = CALLS[job.way] % word(job.image) if job.way and job.image else ""
    step = ["srun"] if job.tasks > 1 or job.nodes > 1 or before.startswith("--") else []
    # srun does not take it from the job (srun(1), --cpus-per-task).
    step += ["--cpus-per-task=%d" % job.cpus] if step and job.cpus > 1 else []
    words = [*step, before] if before else step
    if not words:
        return job.command
    is_compound = COMPOUND.search(job.command)
    return " ".join([*words, "sh -c " + single_quoted(job.command) if is_compound else job.command])


def quoted(value: str) -> str:
    """A value as sbatch reads it from a script: in double quotes if it holds more than plain characters."""
    if PLAIN.fullmatch(value):
        return value
    return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"')


def word(value: str) -> str:
    """A value as one word of the shell."""
    return value if PLAIN.fullmatch(value) and "[" not in value else single_quoted(value)


def single_quoted(value: str) -> str:
    """A text in single quotes, which the shell takes as it is."""
    return "'%s'" % value.replace("'", "'\\''")
