"""Rules about the files of the site's own in Slurm's directory, and about the switches in topology.conf."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from slurmfab.base.hostlist import fold
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Place
from slurmfab.cluster.slurm.site_files import OCI, TOPOLOGY

_WRITTEN: Mapping[str, str] = {
    "slurm.conf": "slurmfab writes it; its further keys go under slurm_conf",
    "gres.conf": "slurmfab writes it from Gres, File and AutoDetect of nodes",
    "cgroup.conf": "slurmfab writes it; its further keys go under cgroup_conf",
    "slurmdbd.conf": "slurmfab writes it for database; its further keys go under slurmdbd_conf",
}
"""Files that slurmfab writes in every cluster, or from keys of their own."""

_SECRET = (".key", ".jwks", ".pem")
_PLUGIN = "TopologyPlugin"
_WITH_FILE = ("topology/tree", "topology/block")
_TOPOLOGY_FILES = (TOPOLOGY, "topology.yaml")


def each_file_has_one_source(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """A file that slurmfab writes from other keys cannot be the site's as well."""
    written = {
        **_WRITTEN,
        **({"job_container.conf": "slurmfab writes it for private_tmp"} if cluster.private_tmp else {}),
        **({TOPOLOGY: "slurmfab writes it from the key topology"} if cluster.topology else {}),
        **({OCI: "slurmfab writes it for containers: [oci]"} if cluster.uses_oci else {}),
    }
    kinds = [one for one in ("prolog", "epilog") if cluster.has_own_scripts or getattr(cluster, one) is not None]
    directories = {f"{kind}.d" for kind in kinds}
    for name in cluster.slurm_files:
        if name in written:
            yield ("slurm_files", name), f"{written[name]}; remove one of the two"
        elif name.endswith(_SECRET):
            yield ("slurm_files", name), "every user can read the files of Slurm's directory, so it may not be a secret"
        elif posixpath.dirname(name) in directories:
            yield ("slurm_files", name), f"slurmfab fills {posixpath.dirname(name)} from its key at the top"
        elif any(other.startswith(f"{name}/") for other in cluster.slurm_files):
            yield ("slurm_files", name), "another name uses it as a directory"


def topology_has_its_plugin(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Only topology/tree reads switches (topology.conf(5))."""
    for key, value in cluster.slurm_conf.items() if cluster.topology else ():
        if key.lower() == _PLUGIN.lower() and value != "topology/tree":
            yield ("slurm_conf", key), "the key topology at the top needs topology/tree; remove one of the two"


def topology_has_its_file(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """slurmctld does not start with topology/tree or topology/block without a file (topology.conf(5))."""
    has_file = cluster.topology or any(name in cluster.slurm_files for name in _TOPOLOGY_FILES)
    for key, value in cluster.slurm_conf.items() if not has_file else ():
        if key.lower() == _PLUGIN.lower() and value in _WITH_FILE:
            switches = "name the switches under topology, or " if value == "topology/tree" else ""
            yield (
                ("slurm_conf", key),
                f"{value} needs {TOPOLOGY}, without which slurmctld does not start: {switches}name that file under "
                "slurm_files",
            )


def switches_are_a_tree(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Each switch has nodes or switches, and each of these is known and connected to one switch alone."""
    names = [switch.name for switch in cluster.topology]
    known = {"Nodes": frozenset(cluster.compute_nodes), "Switches": frozenset(names)}
    taken: dict[tuple[str, str], str] = {}
    for number, switch in enumerate(cluster.topology):
        place: Place = ("topology", number)
        if names.index(switch.name) != number:
            yield (*place, "SwitchName"), f'"{switch.name}" is already the name of another switch'
        if {"nodes", "switches"} <= switch.model_fields_set or not {"nodes", "switches"} & switch.model_fields_set:
            yield place, f'switch "{switch.name}" needs either Nodes or Switches'
        for key, members in (("Nodes", switch.nodes), ("Switches", switch.switches)):
            strange = [one for one in members if one not in known[key]]
            twice = [one for one in members if taken.setdefault((key, one), switch.name) != switch.name]
            if strange:
                what = "a compute node" if key == "Nodes" else "a switch of this list"
                yield (*place, key), f'"{fold(strange)}" is not {what}'
            if twice:
                yield (*place, key), f'"{fold(twice)}" is already connected to another switch'
    yield from _cut_off(cluster)


def _cut_off(cluster: Cluster) -> Iterator[tuple[Place, str]]:
    """Yield nodes without a switch, which would get no jobs, and switches that are connected in a circle."""
    if not cluster.topology:
        return
    connected = {node for switch in cluster.topology for node in switch.nodes}
    if missing := [node for node in cluster.compute_nodes if node not in connected]:
        yield ("topology",), f"{fold(missing)} is connected to no switch, so Slurm would start no job there"
    below = {switch.name: switch.switches for switch in cluster.topology}
    for number, switch in enumerate(cluster.topology):
        seen: set[str] = set()
        reached = set(switch.switches)
        while reached - seen:
            seen |= reached
            reached = {one for name in reached for one in below.get(name, ())}
        if switch.name in seen:
            yield ("topology", number, "Switches"), f'switch "{switch.name}" is connected to itself'


RULES = (each_file_has_one_source, topology_has_its_plugin, topology_has_its_file, switches_are_a_tree)
