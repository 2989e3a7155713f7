"""The text of the cluster file of an import, for people: short, grouped, with the comments of the old files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slurmfab.base import hostlist
from slurmfab.cluster.inventory.edits.writing import addresses_section, ssh_section
from slurmfab.cluster.inventory.edits.yaml_text import yaml_text
from slurmfab.commands.import_cluster.draft import Comments, Draft, Overrides, PartitionDraft
from slurmfab.core.impact.slurm_diff import TABLES

HEAD = """\
# A Slurm cluster, imported from the files of its hosts. Change this file, check the changes with `fab plan`, then run
# `fab deploy`. Keys in snake_case are slurmfab's; keys in CamelCase are Slurm's own, spelled as in slurm.conf(5).
# The lock beside this file has what was found on the hosts. docs/cluster-file.md explains every key.
"""

NULLS = (
    "# slurmfab would write these lines; your {file} leaves them to Slurm's defaults. Remove a line here to take",
    "# slurmfab's value, which stands behind it.",
)

WITH_DATABASE = (
    "# The same for what slurmfab writes besides where there is a `database`: if you add one, jobs and their usage are",
    "# recorded, and nobody needs an account to run jobs, or gets another priority, until you remove a line here.",
)


def text(draft: Draft) -> str:
    """The text of the cluster file."""
    sections = (
        HEAD + f"cluster: {yaml_text(draft.name)}\n",
        ssh_section(draft.ssh, draft.endpoints),
        addresses_section(draft.addresses),
        plain_section("# The kind of Slurm's packages on the hosts, and their version.", "slurm", draft.slurm),
        plain_section("# The UID, and GID, of these users on all hosts.", "ids", draft.ids),
        hosts_of_daemons(draft),
        nodes_section(draft),
        partitions_section(draft),
        overrides(draft, "slurm_conf", draft.slurm_conf, "slurm.conf") + of_database(draft),
        overrides(draft, "cgroup_conf", draft.cgroup_conf, "cgroup.conf"),
        overrides(draft, "slurmdbd_conf", draft.slurmdbd_conf, "slurmdbd.conf"),
        files_section(draft),
        not_taken(draft),
        draft.accounts,
    )
    return "\n".join(filter(None, sections))


def plain_section(comment: str, key: str, values: Mapping[str, object]) -> str:
    """A section on one line; empty for none."""
    inside = ", ".join(f"{name}: {yaml_text(str(value), in_flow=True)}" for name, value in values.items())
    return f"{comment}\n{key}: {{{inside}}}\n" if values else ""


def hosts_of_daemons(draft: Draft) -> str:
    """The hosts of slurmctld and slurmdbd, and where slurmctld keeps its state."""
    names = ", ".join(yaml_text(host, in_flow=True) for host in draft.controllers)
    lines = [
        "# The hosts of slurmctld, the primary first." if len(draft.controllers) > 1 else "# The host of slurmctld."
    ]
    lines.append(f"controllers: [{names}]")
    if draft.state_directory:
        lines.append(f"state_directory: {yaml_text(draft.state_directory)}")
    if draft.slurm_conf_directory:
        lines += ["", "# All hosts share this directory, and /etc/slurm has links to Slurm's files in it."]
        lines.append(f"slurm_conf_directory: {yaml_text(draft.slurm_conf_directory)}")
    if draft.slurm_user != "slurm":
        lines += ["", "# The user of slurmctld and slurmdbd, and of their files, which the site makes."]
        lines.append(f"slurm_user: {yaml_text(draft.slurm_user)}")
    if draft.keep_files:
        lines += ["", "# Slurm's files stay as they are on the hosts; check-cluster compares them with this file."]
        lines.append("keep_files: true")
    if draft.database:
        lines += ["", "# slurmdbd and its database; the password stays where it is.", "database:"]
        lines += [
            f"  {key}: {value if value in ('true', 'false') else yaml_text(value)}"
            for key, value in draft.database.items()
        ]
    return "\n".join(lines) + "\n"


def nodes_section(draft: Draft) -> str:
    """The compute nodes in groups, and those that are not there yet."""
    there = ["# Compute nodes in groups; what is not given here is as the lock has it.", "nodes:"]
    there += group_lines(draft, draft.nodes)
    future = ["", "# Nodes that are not there yet (State=FUTURE).", "future_nodes:"]
    future += group_lines(draft, draft.future_nodes)
    return "\n".join((*there, *(future if draft.future_nodes else ()))) + "\n"


def group_lines(draft: Draft, nodes: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The lines of nodes, in groups."""
    lines: list[str] = []
    for hosts, settings in draft.grouped(nodes):
        lines += commented(draft.node_comments.get(hosts[0], ()), "  ")
        lines.append(f"  - hosts: {yaml_text(hostlist.fold_in_order(hosts))}")
        lines += [f"    {key}: {yaml_text(value)}" for key, value in settings.items()]
    return lines


def partitions_section(draft: Draft) -> str:
    """The partitions, and whether slurmfab adds its own."""
    lines = ["partitions:"]
    for partition in draft.partitions:
        lines += partition_lines(partition)
    if not draft.own_partition:
        lines += [
            "",
            "# slurmfab runs its test jobs in these partitions; without this line it adds a hidden one for them.",
            "own_partition: false",
        ]
    if draft.configless:
        lines += ["", "# Compute nodes fetch Slurm's files from slurmctld.", "configless: true"]
    return "\n".join(lines) + "\n"


def partition_lines(partition: PartitionDraft) -> Iterator[str]:
    """The lines of one partition."""
    yield from commented(partition.comments, "  ")
    yield f"  - PartitionName: {yaml_text(partition.name)}"
    nodes = partition.nodes if partition.nodes == "ALL" else yaml_text(hostlist.fold(partition.nodes))
    yield f"    Nodes: {nodes if partition.nodes else '[]'}"
    yield from (f"    {key}: {yaml_text(value)}" for key, value in partition.settings.items())


def overrides(draft: Draft, key: str, values: Overrides, file: str) -> str:
    """Keys of one of Slurm's files: those of the old file, then the lines that it leaves out."""
    given = {name: value for name, value in values.items() if value is not None}
    left_out = [name for name, value in values.items() if value is None]
    lines = [f"# Further keys of {file}, as they were.", f"{key}:"] if given else [f"{key}:"]
    for name, value in given.items():
        lines += commented(draft.comments.get((file, name.lower()), ()), "  ")
        lines.append(f"  {name}: {yaml_text(value)}")
    lines += commented(homeless(draft, file, given), "  ")
    if left_out:
        lines += [""] if len(lines) > 1 else []
        lines += [f"  {line.format(file=file)}" for line in NULLS]
        lines += [f"  {name}: null{behind(draft.ours.get((file, name.lower()), ''))}" for name in left_out]
    return "\n".join(lines) + "\n" if values else ""


def of_database(draft: Draft) -> str:
    """The lines of `slurm_conf` that keep a later database from changing which jobs run; empty for none."""
    if not draft.of_database:
        return ""
    lines = ["" if draft.slurm_conf else "slurm_conf:", *(f"  {line}" for line in WITH_DATABASE)]
    return "\n".join([*lines, *(f"  {name}: null{behind(value)}" for name, value in draft.of_database.items())]) + "\n"


def homeless(draft: Draft, file: str, given: Iterable[str]) -> Iterator[str]:
    """Yield the comments of the old file above lines that need no key here, but for headings in capitals."""
    here = {name.lower() for name in (*given, "NodeName", "PartitionName")}
    found = {
        key: telling
        for (name, key), comments in draft.comments.items()
        if name == file and key not in here and (telling := [one for one in comments if not one.isupper()])
    }
    if found:
        yield f"Comments of {file} above lines that need no key here:"
    for key, comments in found.items():
        spelled = TABLES[file][key].name if key in TABLES.get(file, {}) else key
        yield f"  {spelled}: {' / '.join(comments)}"


def behind(value: str) -> str:
    """A value as a comment at the end of a line."""
    return f"  # {value}" if value else ""


NOT_TAKEN = {
    "slurm_ssh: none": "a home, a shell and SSH logins between hosts for the slurm user",
    "hosts_file: false": "names of all hosts in /etc/hosts, and their SSH host keys in /etc/ssh/ssh_known_hosts",
    "restart_daemons: false": "starting daemons again when they crash",
    "rotate_logs: false": "rotation of Slurm's logs where the packages' own does not work",
}
"""What an import that adopts the least leaves out, by the line of the cluster file that says so."""

GUARD, GUARDED = "guard_directories: false", "Slurm's directories and the start of its daemons, by which another user "
GUARDED += "could become root, are set right; this line leaves them as they are"
"""The line that leaves even that, and what it is about."""


def not_taken(draft: Draft) -> str:
    """The lines that leave out what the cluster did not have; empty if all is taken."""
    if not draft.adopts_least:
        return ""
    head = "# Not taken, as this cluster did not have it. Remove a line to have slurmfab manage that, too."
    lines = (f"{line}  # {what}" for line, what in NOT_TAKEN.items())
    return "\n".join([head, *lines, f"# {GUARD}  # {GUARDED}"]) + "\n"


def files_section(draft: Draft) -> str:
    """The scripts around jobs, and the files of Slurm's directory that have no keys of their own."""
    scripts = [f"{kind}: {yaml_text(path)}\n" for kind, path in draft.scripts.items()]
    files = [f"  {yaml_text(name)}: {yaml_text(path)}\n" for name, path in draft.slurm_files.items()]
    parts = (
        "".join(["# The scripts of a directory beside this file run around each job.\n", *scripts] if scripts else []),
        "".join([FURTHER_FILES, *files] if files else []),
    )
    return "\n".join(filter(None, parts))


FURTHER_FILES = """\
# Further files of /etc/slurm, the same on all hosts; each path is relative to this file.
slurm_files:
"""


def commented(comments: Comments | Iterable[str], indent: str) -> list[str]:
    """Lines of comments."""
    return [f"{indent}# {line}" for line in comments]
