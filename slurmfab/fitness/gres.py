"""Whether hosts have the GPUs that the cluster file gives them, and can find them as it wants: found out from facts.

A node that the lock knows keeps what the lock holds, so that a GPU which has fallen off its bus is a failed check and
stops nobody; a cluster file that asks for more than that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from slurmfab.errors import InputError
from slurmfab.facts import BareGpu, Gpu, HostFacts
from slurmfab.plans.kinds_of_drift import acceptance
from slurmfab.slurm.gres import Device, autodetect, finds_itself, gres_value, is_of_type, named_files, parsed, written
from slurmfab.slurm.versions import SlurmVersion

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster
    from slurmfab.lock import Lock
    from slurmfab.situation import Situation

PLUGIN_PACKAGES = {"nvml": "slurm-wlm-nvml-plugin (contrib)", "rsmi": "slurm-wlm-rsmi-plugin"}
"""Debian's packages of the plugins that slurmd does not bring along (Debian 12 has no nvml that fits its slurmd)."""

NVIDIA_PLUGIN_SINCE = SlurmVersion(24, 11)
"""From here on slurmd's own package has gpu_nvidia.so, which needs the driver alone and no library."""


def unfit(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """The hosts that are met now and have not the GPUs that the cluster file gives them, with the reason for each."""
    found = {}
    for host, fact in facts.items():
        is_known = host in lock.hosts and lock.hosts[host].hardware is not None
        if "compute" in cluster.roles(host) and not is_known:
            found[host] = wrong_gpus(cluster.settings_of(host), fact.gpus, fact.bare_gpus)
    return {host: reason for host, reason in found.items() if reason}


def refuse_unfit(situation: Situation) -> None:
    """Refuse a cluster file that asks for GPUs which its nodes never had, or for a way to find them that they lack.

    Raises:
        InputError: with what is wrong with each node; nothing was changed.
    """
    complaints = []
    for node in situation.compute_nodes:
        settings = situation.cluster.settings_of(node)
        complaints += [
            f"{node}: {reason}"
            for reason in (_too_many(situation, node, settings), _no_plugin(situation, node, settings))
            if reason
        ]
    if complaints:
        raise InputError("\n".join((*complaints, "Nothing was changed on any host.")))


def remarks(situation: Situation, hosts: Collection[str]) -> Iterator[tuple[str, str]]:
    """What people should know of these hosts' GPUs although nothing stops because of it: host and words."""
    for node in situation.compute_nodes:
        if node not in hosts or node not in situation.facts:
            continue
        if situation.facts[node].bare_gpus:
            yield node, _of_bare(situation, node)
        settings, known = situation.cluster.settings_of(node), situation.host(node).gpus
        other = _other_types(settings, known)
        if other:
            yield node, other
        if known and gres_value(settings) and not wanted_gpus(settings):
            all_of_them = written(Device("gpu", known[0].type, str(len(known))))
            said = f"its Gres, {gres_value(settings)}, names none of its {len(known)} GPUs, so jobs get none"
            yield node, f"{said}; if they shall, add {all_of_them} to it"


def wrong_gpus(settings: Mapping[str, str], gpus: Sequence[Gpu], bare: Sequence[BareGpu]) -> str:
    """Why a host that is met now cannot have the Gres of the cluster file; empty when it can.

    Args:
        settings: what the file says of it.
        gpus: those that have a device file there.
        bare: those that have none.
    """
    wanted, missing = wanted_gpus(settings), missing_files(settings, gpus)
    if missing:
        return f"the cluster file names {' and '.join(missing)} (File), and there is no such device; no driver?"
    if wanted > len(gpus):
        why = (
            f"{in_words(bare)}: install the driver first"
            if bare
            else "is the driver installed, and are there /dev/nvidia files?"
        )
        return (
            f"the cluster file gives it {counted(wanted)}, and {len(gpus)} can be seen there ({why}). Or leave its "
            "Gres out, so that what it has is discovered."
        )
    other = _other_types(settings, gpus)
    return f"{other}." if other else ""


def missing_files(settings: Mapping[str, str], gpus: Sequence[Gpu]) -> list[str]:
    """The device files that the cluster file names for a node and that are not among its GPUs."""
    there = {gpu.file for gpu in gpus}
    return [file for file in named_files(settings) if file not in there]


def wanted_gpus(settings: Mapping[str, str]) -> int:
    """How many GPUs a node has by the cluster file's `Gres`; 0 where it does not say."""
    entries = filter(None, map(parsed, (gres_value(settings) or "").split(",")))
    return sum(int(re.sub(r"\D", "", entry.count)) for entry in entries if entry.name == "gpu")


def counted(number: int) -> str:
    """A number of GPUs in words."""
    return f"{number} GPU{'s' if number != 1 else ''}"


def in_words(bare: Sequence[BareGpu]) -> str:
    """GPUs without a device file as a sentence.

    >>> in_words([BareGpu("0000:3b:00.0", "NVIDIA"), BareGpu("0000:5e:00.0", "NVIDIA")])
    '2 NVIDIA GPUs on the PCI bus have no driver (0000:3b:00.0, 0000:5e:00.0)'
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for gpu in bare:
        groups.setdefault((gpu.maker, gpu.driver), []).append(gpu.bus)
    return " and ".join(
        f"{counted(len(slots)).replace('GPU', f'{maker} GPU')} on the PCI bus "
        f"{'have' if len(slots) > 1 else 'has'} {_driver_in_words(driver)} ({', '.join(slots)})"
        for (maker, driver), slots in groups.items()
    )


def _of_bare(situation: Situation, node: str) -> str:
    """What to do about GPUs without a device file: those that the lock knows need no more than their driver."""
    bare = situation.facts[node].bare_gpus
    if {gpu.bus for gpu in bare} <= {gpu.bus for gpu in situation.host(node).gpus}:
        return f"{in_words(bare)}, and the lock has them: load the driver again (see `dmesg` there)"
    way = acceptance(situation.cluster.roles(node), node)
    return (
        f"{in_words(bare)}; Slurm cannot use what has no device file. Install the driver (nvidia-smi or rocm-smi shows "
        f"whether it works), then accept the hardware: {way}"
    )


def _driver_in_words(driver: str) -> str:
    """What drives a GPU that has no device file."""
    if driver in ("nvidia", "amdgpu"):
        return f"the driver {driver} and no device file"
    return f"only the driver {driver}" if driver else "no driver"


def _other_types(settings: Mapping[str, str], gpus: Sequence[Gpu]) -> str:
    """That a type of the cluster file's is no model of what is there; empty where it is, or is a name of its own.

    A type is a name that the user chooses, and `pascal` or `big` may be anything; one with digits in it says which
    model it is.
    """
    models = list(dict.fromkeys(gpu.type for gpu in gpus if gpu.type))
    entries = filter(None, map(parsed, (gres_value(settings) or "").split(",")))
    for entry in entries:
        says_model = entry.name == "gpu" and re.search(r"\d", entry.type)
        if models and says_model and not any(is_of_type(model, entry.type) for model in models):
            return (
                f"the cluster file calls its GPUs {written(entry)}, and they are {' and '.join(models)}. Write the "
                "type that they have, or a part of it; a name of your own has no digits"
            )
    return ""


def _too_many(situation: Situation, node: str, settings: Mapping[str, str]) -> str:
    """Why a node cannot have the Gres of the cluster file by what the lock holds of it; empty when it can."""
    wanted, known = wanted_gpus(settings), situation.host(node).gpus
    missing = missing_files(settings, known)
    if missing:
        return f"the cluster file names {' and '.join(missing)} (File), and there was never such a device."
    if wanted <= len(known):
        return ""
    seen = situation.facts[node].gpus if node in situation.facts else ()
    bare = situation.facts[node].bare_gpus if node in situation.facts else ()
    way = acceptance(situation.cluster.roles(node), node)
    now = f" There are {len(seen)} now; to take them: {way}." if len(seen) > len(known) else ""
    return (
        f"the cluster file gives it {counted(wanted)}, and the lock knows {len(known)} from when it was met "
        f"({', '.join(gpu.file for gpu in known) or 'none'})."
        + (f" {in_words(bare)}; install the driver, then: {way}." if bare else now or " Write what it has.")
    )


def _no_plugin(situation: Situation, node: str, settings: Mapping[str, str]) -> str:
    """Why slurmd could not find the node's GPUs in the way that the cluster file wants; empty when it could."""
    if not finds_itself(settings) or node not in situation.facts:
        return ""
    method, fact = autodetect(settings), situation.facts[node]
    if "slurmd" in fact.packages:
        is_there = method in fact.gpu_plugins
    else:
        is_there = method == "nvidia" and situation.slurm_version >= NVIDIA_PLUGIN_SINCE
    if is_there:
        return ""
    package = PLUGIN_PACKAGES.get(method)
    return (
        f"AutoDetect: {method} needs Slurm's plugin gpu_{method}.so, and Slurm {situation.slurm_version} there has "
        f"{'and '.join(f'gpu_{name}.so' for name in fact.gpu_plugins) or 'none of its kind'}. Leave AutoDetect out: "
        f"the device files are then written out{f'; or install {package} there' if package else ''}."
    )
