"""NVIDIA GPUs divided into MIG instances, by nvidia-smi.

The words of nvidia-smi are those of NVIDIA's MIG User Guide. A GPU may need a reset before its MIG mode changes, and
nothing may use it then, not even a program that only looks at it.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from typing import ClassVar, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from slurmfab.on_hosts.agent.core import processes
from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.facts.nvidia_gpus import mig_profiles, parse_details
from slurmfab.on_hosts.agent.nodes.job_processes import step_daemons
from slurmfab.on_hosts.agent.services.service import is_active

Layout = Tuple[str, ...]
"""The profiles of a GPU's instances, such as `1g.5gb`; empty for a whole GPU."""

SMI = "nvidia-smi"
SMI_SECONDS = 180.0  # time limit of one call; a reset takes some 10 s
ENABLED, DISABLED = "Enabled", "Disabled"
WHOLE, MODE_ALONE, UNABLE = "whole", "in MIG mode without instances", "without MIG"

IN_USE = "In use by another client"
PAUSES = (2.0, 5.0, 10.0)
"""Seconds before another try where a program uses a GPU for a moment, as a health check or an exporter does."""

NONE_THERE = re.compile(r"No (?:GPU|compute) instances found", re.IGNORECASE)

DRIVERS_OWN = ("nvidia-persistenced",)  # programs that may keep a GPU open while it is divided
WATCHER = "slurmfab-idle-gpus.service"  # slurmfab's own service that looks at GPUs; divided ones have none


class GpuState(NamedTuple):
    """A GPU as nvidia-smi shows it."""

    address: str  # its PCI address, as nvidia-smi has it
    minor: int  # the number of its device file
    mode: str  # MIG mode: `Enabled`, `Disabled`, or another text where the GPU has none
    instances: Layout  # sorted

    @property
    def text(self) -> str:
        """How it is divided, for the comparison with `layout_text`."""
        if self.mode not in (ENABLED, DISABLED):
            return UNABLE
        return layout_text(self.instances) if self.instances or self.mode == DISABLED else MODE_ALONE


class MigInstances(Resource):
    """GPUs that are divided into these instances."""

    kind: ClassVar[str] = "mig"
    only_name: ClassVar[str] = "instances"
    deadline: ClassVar[float] = 900.0
    layouts: Tuple[Tuple[str, Layout], ...]  # by slot

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """The instances of each GPU."""
        return {"GPU " + slot: layout_text(layout) for slot, layout in self.layouts}

    def actual(self, context: Context) -> State:
        """The instances that each GPU has."""
        return {"GPU " + slot: gpu.text for slot, gpu in states(context).items()}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Divide the GPUs that differ.

        Raises ResourceFailed: a job or another process is on the node, and nothing was changed; or nvidia-smi failed.
        """
        jobs = sorted({step.partition(".")[0] for step in step_daemons(context).values()})
        if jobs:
            raise ResourceFailed("jobs run here (%s), so no GPU was divided; run this again" % ", ".join(jobs))
        was_watched = is_active(context, WATCHER)
        if was_watched:
            context.must(["systemctl", "stop", WATCHER])
        try:
            divide(context, {slot: layout for slot, layout in self.layouts if "GPU " + slot in differing})
        except ResourceFailed:
            if was_watched:
                context.run(["systemctl", "start", WATCHER])
            raise


def layout_text(layout: Layout) -> str:
    """The instances of a GPU in words, in an order in which equal ones are equal."""
    return ", ".join(sorted(layout)) or WHOLE


def states(context: Context) -> Dict[str, GpuState]:
    """The GPUs of this host, by slot. Raises ResourceFailed if nvidia-smi does not show them."""
    return parse_states(smi(context, "-q"), smi(context, "-L"))


def parse_states(details: str, listing: str) -> Dict[str, GpuState]:
    """The GPUs in the outputs of `nvidia-smi -q` and `nvidia-smi -L`, by slot."""
    profiles = mig_profiles(listing, details)
    return {
        gpu["bus"]: GpuState(gpu["address"], gpu["minor"], gpu["mig"], tuple(sorted(profiles[gpu["bus"]].values())))
        for gpu in parse_details(details)
    }


def divide(context: Context, layouts: Mapping[str, Layout]) -> None:
    """Divide the GPUs that are not divided so; the others are left alone.

    Raises ResourceFailed: a GPU is missing or in use, and nothing was changed; or nvidia-smi failed.
    """
    there = states(context)
    differing = {slot: layout for slot, layout in layouts.items()
                 if slot not in there or there[slot].text != layout_text(layout)}  # fmt: skip
    for slot in differing:
        refuse_unfit(context, slot, there)
    for slot, layout in differing.items():
        if layout:
            enable(context, slot, there[slot], layout)
        # All instances of the GPU go, those without a compute instance, too.
        for word in ("-dci", "-dgi"):
            smi(context, "mig", "-i", there[slot].address, word, nothing_there=True)
        if layout:
            smi(context, "mig", "-i", there[slot].address, "-cgi", ",".join(largest_first(layout)), "-C")
        else:
            set_mode(context, slot, there[slot], DISABLED)


def refuse_unfit(context: Context, slot: str, there: Mapping[str, GpuState]) -> None:
    """Refuse a GPU that is missing, has no MIG mode, or that a process has open. Raises ResourceFailed."""
    if slot not in there:
        raise ResourceFailed("nvidia-smi shows no GPU in slot %s" % slot)
    if there[slot].text == UNABLE:
        raise ResourceFailed("the GPU in slot %s cannot be divided: nvidia-smi shows no MIG mode for it" % slot)
    if any("c." in profile for profile in there[slot].instances):
        raise ResourceFailed(
            "somebody has divided instances of the GPU in slot %s again (%s), which slurmfab could not make anew; "
            "remove them: nvidia-smi mig -dci; nvidia-smi mig -dgi" % (slot, there[slot].text)
        )
    users = list(users_of(context, there[slot].minor))
    if users:
        raise ResourceFailed(
            "the GPU in slot %s (/dev/nvidia%d) is in use, so no GPU was divided: %s. End that, or wait; then run this "
            "again" % (slot, there[slot].minor, ", ".join(users))
        )


def users_of(context: Context, minor: int) -> Iterator[str]:
    """Yield the processes that have a GPU or one of its instances open: PID, program and user."""
    proc, end = context.path("/proc"), "/nvidia%d" % minor
    for pid in names(proc):
        place = "%s/%s" % (proc, pid)
        if pid.isdecimal() and any(target.endswith(end) for target in opened(place)):
            program = processes.program(place)
            if program not in DRIVERS_OWN:
                yield "PID %s (%s of %s)" % (pid, program, user_name(processes.real_uid(place)))


def opened(place: str) -> Iterator[str]:
    """Yield the paths of the files that a process has open."""
    for name in names(place + "/fd"):
        try:
            yield os.readlink("%s/fd/%s" % (place, name))
        except OSError:
            continue  # closed meanwhile


def user_name(uid: int) -> str:
    """The name of a user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return str(uid)


def enable(context: Context, slot: str, gpu: GpuState, layout: Layout) -> None:
    """Switch a GPU to MIG mode. Raises ResourceFailed if it has not these profiles; then its mode is as before."""
    if gpu.mode == ENABLED:
        refuse_unknown(slot, offered(context, gpu), layout)
        return
    try:
        told = offered(context, gpu)  # driver 580 of an H200 tells them without MIG mode, too
    except ResourceFailed:
        told = []
    if told:
        refuse_unknown(slot, told, layout)
    set_mode(context, slot, gpu, ENABLED)
    if told:
        return
    try:
        refuse_unknown(slot, offered(context, gpu), layout)
    except ResourceFailed:
        set_mode(context, slot, gpu, gpu.mode)
        raise


def set_mode(context: Context, slot: str, gpu: GpuState, wanted: str) -> None:
    """Switch a GPU's MIG mode, with a reset where it needs one. Raises ResourceFailed if the mode stays."""
    smi(context, "-i", gpu.address, "-mig", "1" if wanted == ENABLED else "0")
    if states(context)[slot].mode != wanted:
        smi(context, "--gpu-reset", "-i", gpu.address)
    if states(context)[slot].mode != wanted:
        raise ResourceFailed("the MIG mode of the GPU in slot %s stays as it was, also after its reset; reboot" % slot)


def offered(context: Context, gpu: GpuState) -> List[str]:
    """The profiles of a GPU. Raises ResourceFailed if nvidia-smi does not tell them, as many do without MIG mode."""
    text = smi(context, "mig", "-i", gpu.address, "-lgip")
    return list(dict.fromkeys(re.findall(r"\bMIG (\S+)", text)))


def refuse_unknown(slot: str, told: List[str], layout: Layout) -> None:
    """Refuse profiles that are not among those of a GPU. Raises ResourceFailed."""
    unknown = sorted({*layout} - {*told})
    if unknown:
        raise ResourceFailed(
            "the GPU in slot %s has no profile %s; it has %s" % (slot, " and ".join(unknown), ", ".join(told))
        )


def largest_first(layout: Layout) -> List[str]:
    """Profiles in the order in which the driver finds a place for each: small ones may stand in the way of large."""
    return sorted(layout, key=lambda profile: (-int(profile.partition("g")[0]), profile))


def smi(context: Context, *words: str, nothing_there: bool = False) -> str:
    """What nvidia-smi prints; while another program uses the GPU, it is tried again.

    `nothing_there`: whether it may fail because there are no instances. Raises ResourceFailed with what it printed.
    """
    for pause in (*PAUSES, None):
        done = context.run([SMI, *words], seconds=SMI_SECONDS)
        text = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode == 0 or (nothing_there and NONE_THERE.search(text)):
            return text
        if pause is None or IN_USE not in text:
            break
        time.sleep(pause)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raise ResourceFailed("%s %s: %s" % (SMI, " ".join(words), " | ".join(lines[-4:]) or "it printed nothing"))
