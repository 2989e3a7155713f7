"""Where each key of the old files went: one entry for each, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from slurmfab.base.hostlist import fold
from slurmfab.cluster.slurm.conf_text import REPEATED, SYNONYMS, parse
from slurmfab.commands.import_cluster import database, settings
from slurmfab.commands.import_cluster.carried import Carried
from slurmfab.commands.import_cluster.draft import OldLine, Overrides, old_lines
from slurmfab.commands.import_cluster.found import Kept
from slurmfab.commands.import_cluster.nodes import DISCOVERED, OWN_PARTITION, unknown
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.settings import Settled

SAME = "as slurmfab writes it"
DEFAULT = "Slurm's default"
LATER = "a later line of the file has another value"

PLACES: Mapping[str, str] = {
    "clustername": "cluster",
    **dict.fromkeys(("slurmctldhost", "controlmachine", "backupcontroller"), "controllers"),
    **dict.fromkeys(("controladdr", "backupaddr"), "addresses"),
    "statesavelocation": "state_directory",
    **dict.fromkeys(("slurmuser", "slurmduser", "authtype", "credtype", "cryptotype"), SAME),
    "downnodes": "left out: nodes are set down in Slurm itself",
    "include": "the lines of that file are here",
}
"""Keys of slurm.conf with places of their own, by key in lower case."""

OF_GROUPS, OF_PARTITIONS = "nodes, in the groups that it is for", "partitions, in those that it is for"
"""Where the lines of defaults went."""

OF_NODES = {"nodehostname": "the host's own name, in the lock", "nodeaddr": "addresses"}


@dataclass(frozen=True)
class Accountant:
    """Finds the place of each key."""

    old: OldCluster  # the cluster as it was found
    settled: Settled
    taken: Carried
    # by file and key in lower case, why a key is left out
    left_out: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def entries(self) -> Iterator[Kept]:
        """Yield the entries of all files: slurm.conf, cgroup.conf, gres.conf, slurmdbd.conf, then the carried ones."""
        draft = self.settled.draft
        yield from self.of_slurm_conf()
        cgroup = self.old.texts["cgroup.conf"]
        yield from self.of_settings("cgroup.conf", cgroup, draft.cgroup_conf, dict[str, str]().get)
        yield from self.of_gres_conf()
        if draft.database:
            text = self.old.text_of(draft.database["host"], database.FILE)
            yield from self.of_settings(database.FILE, text, draft.slurmdbd_conf, place_in_database)
        for name, path in self.taken.slurm_files.items():
            yield Kept(name, "", "", f"slurm_files: {path}")
        for name, why in self.taken.left.items():
            yield Kept(name if name.isprintable() else ascii(name), "", "", f"stays where it is: {why}")

    def of_slurm_conf(self) -> Iterator[Kept]:
        """Yield the entries of slurm.conf."""
        lines = tuple(old_lines(self.old.text))
        final = last_lines(lines)
        for number, line in enumerate(lines):
            if line.kind == "nodename":
                yield from self.of_node_line(line)
            elif line.kind == "partitionname":
                yield from self.of_partition_line(line)
            elif line.kind == "nodeset":
                where = "partitions, by the names of its nodes"
                yield from (
                    Kept("slurm.conf", f"NodeSet {line.pairs[0][1]}: {key}", value, where) for key, value in line.pairs
                )
            else:
                for key, value in line.pairs:
                    is_last = final[key.lower()] == number or key.lower() in REPEATED
                    yield Kept("slurm.conf", key, value, self.place(key) if is_last else LATER)

    def place(self, key: str) -> str:
        """Where a setting of slurm.conf went."""
        low, draft = key.lower(), self.settled.draft
        if low in settings.ACCOUNTING and draft.database:
            return "database, slurmdbd_conf" if low.endswith("port") else "database"
        if low == "slurmuser" and draft.slurm_user != "slurm":
            return "slurm_user"
        if low == "statesavelocation" and not draft.state_directory:
            return SAME
        return PLACES.get(low) or self.place_in("slurm.conf", "slurm_conf", low, draft.slurm_conf)

    def place_in(self, file: str, section: str, low: str, values: Overrides) -> str:
        """Where a setting went that has no place of its own."""
        named = {name.lower(): name for name, value in values.items() if value is not None}
        if low in named:
            return f"{section}.{named[low]}"
        if (file, low) in self.left_out:
            return f"left out: {self.left_out[file, low]}"
        if any((one.file, one.name.lower()) == (file, low) for one in self.settled.left):
            return "left out: the cluster file has no place for it"
        return SAME if low in self.ours(file) else DEFAULT

    def ours(self, file: str) -> Mapping[str, str]:
        """The settings that slurmfab writes into a file."""
        if file == database.FILE:
            return parse(database.text_of_ours(self.old.version)).settings
        return self.settings_of_plan[file]

    @property
    def settings_of_plan(self) -> dict[str, Mapping[str, str]]:
        """The settings of the files of the first plan, by file."""
        return {file: parse(text).settings for file, text in self.settled.plan_input.rendered.items()}

    def of_settings(
        self, file: str, text: str, values: Overrides, own_place: Callable[[str], str | None]
    ) -> Iterator[Kept]:
        """Yield the entries of a file that has settings alone."""
        section = file.replace(".", "_")
        lines = tuple(old_lines(text))
        final = last_lines(lines)
        for number, line in enumerate(lines):
            for key, value in line.pairs:
                low = key.lower()
                where = own_place(low) or self.place_in(file, section, low, values)
                yield Kept(file, key, value, where if final[low] == number else LATER)

    def of_node_line(self, line: OldLine) -> Iterator[Kept]:
        """Yield the entries of a line of compute nodes."""
        (_, hostlist), *rest = line.pairs
        is_default = hostlist.upper() == "DEFAULT"
        node = next(iter(parse(f"NodeName={hostlist}").nodes), "")
        draft = self.settled.draft
        section = "future_nodes" if node in draft.future_nodes else "nodes"
        groups = draft.grouped(draft.future_nodes if node in draft.future_nodes else draft.nodes)
        number = next((number for number, (names, _) in enumerate(groups) if node in names), 0)
        given = {} if is_default or not groups else {key.lower(): key for key in groups[number][1]}
        where = OF_GROUPS if is_default else f"{section}[{number}].hosts"
        yield Kept("slurm.conf", f"node {hostlist}: {line.pairs[0][0]}", hostlist, where)
        for key, value in rest:
            low = SYNONYMS.get(key.lower(), key.lower())
            where = OF_GROUPS if is_default else f"{section}[{number}].{given.get(low, '')}"
            if not is_default and low not in given:
                where = OF_NODES.get(low) or self.left_out_of("node", low) or self.place_of_node_key(low, value)
            yield Kept("slurm.conf", f"node {hostlist}: {key}", value, where)

    def left_out_of(self, kind: str, low: str) -> str:
        """Why a key of nodes or partitions is left out; empty if it is not."""
        why = unknown(kind, low, self.old.version)
        return f"left out: {why}" if why else ""

    @staticmethod
    def place_of_node_key(low: str, value: str) -> str:
        """Where a key of a node line is that its group does not have."""
        if low == "state":
            return DEFAULT if value.lower() == "unknown" else "left out: slurmctld keeps the states of nodes"
        return "as found on the node, in the lock" if low in DISCOVERED else DEFAULT

    def of_partition_line(self, line: OldLine) -> Iterator[Kept]:
        """Yield the entries of a line of a partition."""
        (first, name), *rest = line.pairs
        partitions = self.settled.draft.partitions
        number = next((number for number, one in enumerate(partitions) if one.name == name), None)
        given = {} if number is None else {key.lower(): key for key in (*partitions[number].settings, "Nodes")}
        otherwise = SAME if name.lower() == OWN_PARTITION else OF_PARTITIONS
        where = otherwise if number is None else f"partitions[{number}].PartitionName"
        yield Kept("slurm.conf", f"partition {name}: {first}", name, where)
        for key, value in rest:
            low = SYNONYMS.get(key.lower(), key.lower())
            where = (
                f"partitions[{number}].{given[low]}" if low in given else self.left_out_of("partition", low) or DEFAULT
            )
            where = otherwise if number is None else where
            yield Kept("slurm.conf", f"partition {name}: {key}", value, where)

    def of_gres_conf(self) -> Iterator[Kept]:
        """Yield the entries of gres.conf: one for each line, with the nodes that have it."""
        found: dict[str, list[str]] = {}
        for host in self.old.found.hosts:
            for line in old_lines(self.old.text_of(host, "gres.conf")):
                found.setdefault(" ".join(f"{key}={value}" for key, value in line.pairs), []).append(host)
        for line_text, hosts in found.items():
            yield Kept("gres.conf", f"on {fold(hosts)}", line_text, "Gres of the nodes, and the devices in the lock")


def last_lines(lines: tuple[OldLine, ...]) -> Mapping[str, int]:
    """The number of the last line that has a key, by key in lower case."""
    return {key.lower(): number for number, line in enumerate(lines) for key, _ in line.pairs}


def place_in_database(key: str) -> str:
    """Where a key of slurmdbd.conf went that comes from the section `database`; empty for other keys."""
    if key == "storagepass":
        return "stays on its host"
    if key == "dbdaddr":
        return DEFAULT
    return "database" if key in database.ELSEWHERE else ""
