"""Scripts that list the GPUs of a host, or a job, without the agent, whose facts they verify; their parsers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slurmfab.cluster.facts import Gpu
from slurmfab.on_hosts.agent.facts.gpus import MODELS, slurm_type
from slurmfab.on_hosts.agent.facts.nvidia_gpus import mig_profiles, parse_details, parse_information

HOST_SCRIPT = """\
for file in /dev/nvidia[0-9]* /dev/nvidia-caps/nvidia-cap* /dev/dri/renderD*; do
    if test -c $file; then echo "file $file"; fi
done
for place in /sys/class/drm/renderD*; do
    if test -r $place/device/device; then
        echo "drm /dev/dri/${place##*/} $(basename $(readlink -f $place/device)) $(cat $place/device/device)"
    fi
done
for folder in /proc/driver/nvidia/gpus/*; do
    if test -r $folder/information; then echo "=> driver ${folder##*/}"; cat $folder/information; fi
done
"""
"""Prints device files, AMD devices, and for each NVIDIA GPU its PCI address and the driver's text about it."""

GONE = "No such file or directory"  # the error of a missing device file

_LISTED = re.compile(r"/dev/(nvidia|dri/renderD)\d+")

SMI_SCRIPT = "echo '=> details'; timeout 25 nvidia-smi -q; echo '=> listing'; timeout 25 nvidia-smi -L; true\n"
"""Runs nvidia-smi, which is slow without persistence mode."""


def host_script(known: Sequence[Gpu]) -> str:
    """The script that lists a host's GPUs; nvidia-smi runs only for a known MIG, or without the driver's files."""
    more = " ".join(gpu.file for gpu in known if not _LISTED.match(gpu.file))
    plain = HOST_SCRIPT.replace(" /dev/dri/renderD*;", f" /dev/dri/renderD* {more};") if more else HOST_SCRIPT
    if any(gpu.with_files for gpu in known):
        return plain + SMI_SCRIPT
    return f"{plain}if test -c /dev/nvidiactl -a ! -d /proc/driver/nvidia/gpus; then {SMI_SCRIPT.strip()}; fi\ntrue\n"


def parse_gpus(text: str, known: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs in `host_script`'s output, NVIDIA's first, by the numbers of their device files.

    Of AMD's only those in the lock are returned, since displays have render nodes, too.
    """
    plain, *parts = re.split(r"^=> ", text, flags=re.MULTILINE)
    sections = {head.strip(): body for head, _, body in (part.partition("\n") for part in parts)}
    files = set(re.findall(r"^file (\S+)", plain, re.MULTILINE))
    driver = [
        parse_information(head.split()[-1], body) for head, body in sections.items() if head.startswith("driver ")
    ]
    details = sections.get("details", "")
    described = {gpu["minor"]: gpu for gpu in ([gpu for gpu in driver if gpu] or parse_details(details))}
    profiles = mig_profiles(sections.get("listing", ""), details)
    found: list[Gpu] = []
    for minor in sorted(int(file[11:]) for file in files if re.fullmatch(r"/dev/nvidia\d+", file)):
        gpu = described.get(minor, {"model": "", "bus": ""})
        whole = Gpu(f"/dev/nvidia{minor}", slurm_type(gpu["model"]), gpu["bus"])
        found += _instances(whole, list(profiles.get(whole.bus, {}).values()), files, known) or [whole]
    amd = dict(re.findall(r"^drm (\S+) (.*)", plain, re.MULTILINE))
    there = [gpu.file for gpu in known if not gpu.file.startswith("/dev/nvidia") and gpu.file in files]
    return (*found, *(_amd(file, amd.get(file, "")) for file in there))


def _instances(whole: Gpu, profiles: Sequence[str], files: set[str], known: Sequence[Gpu]) -> list[Gpu]:
    """The MIG instances of one GPU: as in the lock if their device files exist, others with unknown files."""
    left = [gpu for gpu in known if gpu.file == whole.file and gpu.with_files and set(gpu.with_files) <= files]
    found = []
    for profile in profiles:
        kind = f"{whole.type}_{slurm_type(profile)}"
        same = next((gpu for gpu in left if gpu.type == kind), None)
        found.append(replace(same, bus=whole.bus) if same else replace(whole, type=kind, with_files=("unknown",)))
        left = [gpu for gpu in left if gpu is not same]
    return found


def _amd(file: str, fields: str) -> Gpu:
    """A GPU from its PCI address and device ID; for makers other than AMD both are empty."""
    bus, _, device = fields.partition(" ")
    return Gpu(file, slurm_type(MODELS.get(device.strip(), "")), bus)


TOLD_SCRIPT = 'for name in CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES; do eval "echo visible=\\$$name"; done'
"""Prints the GPUs that Slurm assigned to the job."""

FILES_SCRIPT = f'for file in FILES; do test -c $file || echo "$file {GONE}"; done'  # prints missing device files

OPEN_SCRIPT = (
    "for file in FILES; do if error=$(dd if=$file of=/dev/null count=0 2>&1); then error=open; fi; "
    'echo "$file ${error##*: }"; done'
)
"""Prints, for each device file, `open` or the error of an attempt to open it."""

LIST_SCRIPT = "if command -v nvidia-smi >/dev/null; then nvidia-smi -L 2>&1 | sed 's/^/smi=/'; fi"
"""Prints the GPUs that nvidia-smi lists."""


@dataclass(frozen=True)
class JobGpus:
    """The GPUs that a job sees."""

    visible: tuple[str, ...]  # the GPUs in CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES
    files: Mapping[str, str]  # `open` or the error, by device file; only missing files if the job did not open them
    listed: tuple[str, ...]  # the lines of `nvidia-smi -L`; empty without nvidia-smi

    @property
    def gone(self) -> tuple[str, ...]:
        """The missing device files."""
        return tuple(file for file, answer in self.files.items() if answer == GONE)


def job_script(files: Sequence[str], *, opens: bool) -> str:
    """The shell script by which a job lists its GPUs: it opens these files, or runs nvidia-smi."""
    parts = (TOLD_SCRIPT, OPEN_SCRIPT) if opens else (TOLD_SCRIPT, FILES_SCRIPT, LIST_SCRIPT)
    return "; ".join(parts).replace("FILES", " ".join(files) or "/dev/null")


def parse_job(text: str) -> JobGpus:
    """The GPUs in the output of `job_script`."""
    lists = [
        tuple(word for word in line.partition("=")[2].split(",") if word and word != "NoDevFiles")
        for line in text.splitlines()
        if line.startswith("visible=")
    ]
    return JobGpus(
        visible=max(lists, key=len, default=()),
        files=dict(re.findall(r"^(/\S+) (.*)$", text, re.MULTILINE)),
        listed=tuple(re.findall(r"^smi=(.*)$", text, re.MULTILINE)),
    )
