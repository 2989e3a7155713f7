"""Whether hosts have the GPUs that the cluster file gives them, and can detect them as it says: judged from facts.

A node in the lock keeps the GPUs of the lock: a GPU that has fallen off its bus is a failed check and stops no
deployment. A cluster file that asks for more GPUs than the lock holds is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from slurmfab.base.grouping import grouped
from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.facts import DriverlessGpu, Gpu, HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.gres import (
    Device,
    autodetect,
    finds_itself,
    gres_value,
    is_of_type,
    named_files,
    parsed,
    written,
)
from slurmfab.cluster.slurm.platform import has
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.hardware import way_to_accept

NVIDIA_PLUGIN_SINCE = SlurmVersion(24, 11)
"""The first version whose slurmd package has gpu_nvidia.so, which needs only the driver and no library."""


def unfit(cluster: Cluster, lock: Lock, facts: Mapping[str, HostFacts]) -> dict[str, str]:
    """New hosts that lack the GPUs that the cluster file gives them: names and reasons."""
    found = {}
    for host, fact in facts.items():
        is_known = host in lock.hosts and lock.hosts[host].hardware is not None
        if "compute" in cluster.roles(host) and not is_known:
            found[host] = wrong_gpus(cluster.settings_of(host), fact.gpus, fact.driverless_gpus)
    return {host: reason for host, reason in found.items() if reason}


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse, by InputError, GPUs that the lock does not hold, and a missing AutoDetect plugin."""
    complaints: list[Objection | str] = []
    for node in plan_input.heard(plan_input.compute_nodes):
        settings = plan_input.cluster.settings_of(node)
        complaints += [
            f"{node}: {reason}" if plan_input.is_files_change(node) else Objection((node,), reason)
            for reason in (_too_many(plan_input, node, settings), _no_plugin(plan_input, node, settings))
            if reason
        ]
    objected(complaints)


def remarks(plan_input: PlanInput, hosts: Collection[str]) -> Iterator[tuple[str, str]]:
    """Notices about these hosts' GPUs that stop nothing: pairs of host and text."""
    for node in plan_input.compute_nodes:
        if node not in hosts or node not in plan_input.facts:
            continue
        if plan_input.facts[node].driverless_gpus:
            yield node, _driverless_notice(plan_input, node)
        settings, known = plan_input.cluster.settings_of(node), plan_input.host(node).gpus
        other = _other_types(settings, known)
        if other and gres_value(settings) != _gres_before(plan_input, node):
            yield node, other
        if known and gres_value(settings) and not wanted_gpus(settings):
            all_of_them = written(Device("gpu", known[0].type, str(len(known))))
            remark = f"its Gres, {gres_value(settings)}, does not name its {len(known)} GPUs, so jobs cannot use them"
            yield node, f"{remark}; to change that, add {all_of_them} to it"


def _gres_before(plan_input: PlanInput, node: str) -> str:
    """The Gres that slurm.conf gives a node now: what jobs ask for there is a name already."""
    lines = plan_input.conf_before.nodes
    return lines[node].of(node, "gres") if node in lines else ""


def wrong_gpus(settings: Mapping[str, str], gpus: Sequence[Gpu], bare: Sequence[DriverlessGpu]) -> str:
    """Why a new host with these GPUs, `bare` ones without a device file, cannot have the file's Gres; or empty."""
    wanted, missing = wanted_gpus(settings), missing_files(settings, gpus)
    if missing:
        names = " and ".join(missing)
        return f"the cluster file names {names} (File), and the host has no such device; is the driver installed?"
    if wanted > len(gpus):
        why = (
            f"{describe_driverless(bare)}: install the driver first"
            if bare
            else "is the driver installed, and are there /dev/nvidia files?"
        )
        return (
            f"the cluster file gives it {counted(wanted)}, and the host shows {len(gpus)} ({why}). Or leave Gres "
            "out, so that slurmfab discovers its GPUs."
        )
    other = _other_types(settings, gpus)
    return f"{other}." if other else ""


def missing_files(settings: Mapping[str, str], gpus: Sequence[Gpu]) -> list[str]:
    """The device files that the cluster file names for a node and that its GPUs lack."""
    there = {gpu.file for gpu in gpus}
    return [file for file in named_files(settings) if file not in there]


def wanted_gpus(settings: Mapping[str, str]) -> int:
    """The number of GPUs in a node's `Gres` in the cluster file; 0 without one."""
    entries = filter(None, map(parsed, (gres_value(settings) or "").split(",")))
    return sum(int(re.sub(r"\D", "", entry.count)) for entry in entries if entry.name == "gpu")


def counted(number: int) -> str:
    """A number of GPUs as text: `1 GPU`, `2 GPUs`."""
    return f"{number} GPU{'s' if number != 1 else ''}"


def describe_driverless(bare: Sequence[DriverlessGpu]) -> str:
    """GPUs without a device file, as a sentence.

    >>> describe_driverless([DriverlessGpu("0000:3b:00.0", "NVIDIA"), DriverlessGpu("0000:5e:00.0", "NVIDIA")])
    '2 NVIDIA GPUs on the PCI bus have no driver (0000:3b:00.0, 0000:5e:00.0)'
    """
    groups = grouped(((gpu.maker, gpu.driver), gpu.bus) for gpu in bare)
    return " and ".join(
        f"{counted(len(slots)).replace('GPU', f'{maker} GPU')} on the PCI bus "
        f"{'have' if len(slots) > 1 else 'has'} {_driver_in_words(driver)} ({', '.join(slots)})"
        for (maker, driver), slots in groups.items()
    )


def _driverless_notice(plan_input: PlanInput, node: str) -> str:
    """What to do about GPUs without a device file; those in the lock only need their driver."""
    bare = plan_input.facts[node].driverless_gpus
    if {gpu.bus for gpu in bare} <= {gpu.bus for gpu in plan_input.host(node).gpus}:
        return f"{describe_driverless(bare)}, and the lock has them: load the driver again (see `dmesg` there)"
    way = way_to_accept(plan_input, node)
    return (
        f"{describe_driverless(bare)}; Slurm cannot use what has no device file. Install the driver (nvidia-smi or "
        f"rocm-smi shows whether it works), then accept the hardware: {way}"
    )


def _driver_in_words(driver: str) -> str:
    """The driver of a GPU without a device file, as part of a sentence."""
    if driver in ("nvidia", "amdgpu"):
        return f"the driver {driver} and no device file"
    return f"only the driver {driver}" if driver else "no driver"


def _other_types(settings: Mapping[str, str], gpus: Sequence[Gpu]) -> str:
    """The complaint that a GPU type in the cluster file is another model than the GPUs; empty if it fits.

    Users choose the names of types: `pascal` or `big` may be any model, a name with digits is taken for a model.
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


def _too_many(plan_input: PlanInput, node: str, settings: Mapping[str, str]) -> str:
    """Why a node cannot have the Gres of the cluster file according to the lock; empty if it can."""
    wanted, known = wanted_gpus(settings), plan_input.host(node).gpus
    missing = missing_files(settings, known)
    if missing:
        return f"the cluster file names {' and '.join(missing)} (File), and the lock has no such device."
    if wanted <= len(known):
        return ""
    seen = plan_input.facts[node].gpus if node in plan_input.facts else ()
    bare = plan_input.facts[node].driverless_gpus if node in plan_input.facts else ()
    way = way_to_accept(plan_input, node)
    now = f" It has {len(seen)} now; to accept them: {way}." if len(seen) > len(known) else ""
    return (
        f"the cluster file gives it {counted(wanted)}, and the lock has {len(known)} from its first contact "
        f"({', '.join(gpu.file for gpu in known) or 'none'})."
        + (
            f" {describe_driverless(bare)}; install the driver, then: {way}."
            if bare
            else now or " Write the number that it has."
        )
    )


def _no_plugin(plan_input: PlanInput, node: str, settings: Mapping[str, str]) -> str:
    """Why slurmd cannot detect the node's GPUs with the AutoDetect of the cluster file; empty if it can."""
    if not finds_itself(settings) or node not in plan_input.facts:
        return ""
    method, fact = autodetect(settings), plan_input.facts[node]
    if has(fact, "slurmd"):
        is_there = method in fact.gpu_plugins
    else:
        is_there = method == "nvidia" and plan_input.slurm_of(node) >= NVIDIA_PLUGIN_SINCE
    if is_there:
        return ""
    package = plan_input.platform_of(node).gpu_plugins.get(method)
    return (
        f"AutoDetect: {method} needs Slurm's plugin gpu_{method}.so, and Slurm {plan_input.slurm_of(node)} there has "
        f"{'and '.join(f'gpu_{name}.so' for name in fact.gpu_plugins) or 'none of its kind'}. Leave AutoDetect out: "
        f"the device files are then written out{f'; or install {package} there' if package else ''}."
    )
