"""The GPUs of a host as its shell shows them, for checks: the way to them that has no agent on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from slurmfab.agent.amd_gpus import MODELS
from slurmfab.agent.gpus import slurm_type
from slurmfab.agent.nvidia_gpus import detailed, information, mig_profiles
from slurmfab.facts import Gpu

QUESTION = """\
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
"""Prints device files, AMD's devices, and what NVIDIA's driver tells, each GPU's under a line with its address."""

_FOUND = re.compile(r"/dev/(nvidia|dri/renderD)\d+")

DETAILS = "echo '=> details'; timeout 25 nvidia-smi -q; echo '=> listing'; timeout 25 nvidia-smi -L; true\n"
"""Asks NVIDIA's own program, which takes long without persistence mode."""


def question(known: Sequence[Gpu]) -> str:
    """The shell script that shows a host's GPUs.

    Args:
        known: those of the lock: only where one is divided by MIG, or the driver tells nothing, nvidia-smi is asked.
    """
    more = " ".join(gpu.file for gpu in known if not _FOUND.match(gpu.file))
    plain = QUESTION.replace(" /dev/dri/renderD*;", f" /dev/dri/renderD* {more};") if more else QUESTION
    if any(gpu.with_files for gpu in known):
        return plain + DETAILS
    return f"{plain}if test -c /dev/nvidiactl -a ! -d /proc/driver/nvidia/gpus; then {DETAILS.strip()}; fi\ntrue\n"


def seen(text: str, known: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The GPUs in the answer to the question, NVIDIA's first, in the order of their device files' numbers.

    AMD's count where the lock knows them: a render node is of any display as well.

    Args:
        text: the answer.
        known: those of the lock.
    """
    plain, *parts = re.split(r"^=> ", text, flags=re.MULTILINE)
    sections = {head.strip(): body for head, _, body in (part.partition("\n") for part in parts)}
    files = set(re.findall(r"^file (\S+)", plain, re.MULTILINE))
    driver = [information(head.split()[-1], body) for head, body in sections.items() if head.startswith("driver ")]
    details = sections.get("details", "")
    told = {gpu["minor"]: gpu for gpu in ([gpu for gpu in driver if gpu] or detailed(details))}
    profiles = mig_profiles(sections.get("listing", ""), details)
    found: list[Gpu] = []
    for minor in sorted(int(file[11:]) for file in files if re.fullmatch(r"/dev/nvidia\d+", file)):
        gpu = told.get(minor, {"model": "", "bus": ""})
        whole = Gpu(f"/dev/nvidia{minor}", slurm_type(gpu["model"]), gpu["bus"])
        found += _instances(whole, list(profiles.get(whole.bus, {}).values()), files, known) or [whole]
    amd = dict(re.findall(r"^drm (\S+) (.*)", plain, re.MULTILINE))
    there = [gpu.file for gpu in known if not gpu.file.startswith("/dev/nvidia") and gpu.file in files]
    return (*found, *(_amd(file, amd.get(file, "")) for file in there))


def _instances(whole: Gpu, profiles: Sequence[str], files: set[str], known: Sequence[Gpu]) -> list[Gpu]:
    """The MIG instances of one GPU: those of the lock whose device files are there, others without such files."""
    left = [gpu for gpu in known if gpu.file == whole.file and gpu.with_files and set(gpu.with_files) <= files]
    found = []
    for profile in profiles:
        kind = f"{whole.type}_{slurm_type(profile)}"
        same = next((gpu for gpu in left if gpu.type == kind), None)
        found.append(replace(same, bus=whole.bus) if same else replace(whole, type=kind, with_files=("unknown",)))
        left = [gpu for gpu in left if gpu is not same]
    return found


def _amd(file: str, said: str) -> Gpu:
    """One of AMD's GPUs, from its slot and its device ID; of other makers' nothing is said."""
    bus, _, device = said.partition(" ")
    return Gpu(file, slurm_type(MODELS.get(device.strip(), "")), bus)
