"""Files of Slurm's that a cluster file has no keys for: carried as they are, or left where they are with a remark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from slurmfab.base.hostlist import fold
from slurmfab.base.paths import PROGRAMS
from slurmfab.cluster.inventory.slurm_files import LARGEST_FILE, LARGEST_SUM, MOST_FILES, NAME
from slurmfab.cluster.slurm.site_files import is_for_controllers, is_served
from slurmfab.commands.import_cluster.found import FoundFile
from slurmfab.commands.import_cluster.old_cluster import OldCluster

FOLDER = "slurm_files"  # the directory beside the cluster file

WITH_KEYS = ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf")
"""Files that slurmfab writes from keys of the cluster file."""

SECRETS = (".key", ".pem", ".jwks")  # ends of names of files that are secrets

JOB_SUBMIT, PLUGSTACK = "job_submit.lua", "plugstack.conf"
PACKAGED_PLUGSTACK = "include /etc/slurm/plugstack.conf.d/*.conf\n"  # the plugstack.conf of Debian's package

UNUSED = "nothing reads it, because JobSubmitPlugins does not name lua"
PACKAGED = "it is the package's own"
OURS = "slurmfab writes it by itself"
EXPECTED = (PACKAGED, OURS)  # reasons that need no remark
MADE_BY_SLURMFAB = "-- Made by slurmfab"  # how a job_submit.lua of slurmfab's begins

LEAST_ALIKE = 2  # as many hosts must have a file alike that the controller has not, before all get it

SCRIPTS = ("prolog", "epilog")  # keys of the cluster file with a directory of scripts, which slurmfab's programs run


@dataclass(frozen=True)
class Carried:
    """The carried files."""

    # the section `slurm_files`: by name in Slurm's directory, the path beside the cluster file
    slurm_files: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)  # likewise the directory of `prolog` and of `epilog`
    files: Mapping[str, bytes] = field(default_factory=dict)  # their bytes, by this path
    programs: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)  # by name, why a file stays where it is
    remarks: tuple[str, ...] = ()  # what people should know


def carried(old: OldCluster) -> Carried:
    """The files of Slurm's directory that come along, the same on all hosts from now on."""
    names: dict[str, dict[str, FoundFile]] = {}
    own = [host for host, files in old.found.hosts.items() if not files.configless]
    for host in dict.fromkeys((old.found.controller, *own)):
        for file in old.files(host).files:
            if name := carried_name(old, host, file.path):
                names.setdefault(name, {})[host] = file
    chosen = {name: for_all(old, by_host, own) for name, by_host in names.items()}
    left = {name: why for name, by_host in names.items() if (why := reason_against(old, name, chosen[name], by_host))}
    taken = {name: file for name, file in sorted(chosen.items()) if file and name not in left}
    left |= dict.fromkeys(beyond(taken), f"at most {MOST_FILES} files of {LARGEST_SUM >> 10} KiB together come along")
    taken = {name: file for name, file in taken.items() if name not in left}
    paths = {name: f"{FOLDER}/{name}" for name in taken}
    folders = {name.partition("/")[0] for name in taken}
    ours = [kind for kind in SCRIPTS if old.setting(kind) == f"{PROGRAMS}/{kind}"]
    of_scripts = {kind: f"{FOLDER}/{kind}.d" for kind in ours if f"{kind}.d" in folders}
    return Carried(
        slurm_files={name: path for name, path in paths.items() if path.rpartition("/")[0] not in of_scripts.values()},
        scripts=of_scripts,
        files={paths[name]: bytes_of(file) for name, file in taken.items()},
        programs=tuple(paths[name] for name, file in taken.items() if file.mode & 0o111),
        left=dict(sorted(left.items())),
        remarks=(
            *(f"{path_text(old, name)} stays where it is: {why}." for name, why in left.items() if why not in EXPECTED),
            *(
                remark
                for name, by_host in names.items()
                if (name in taken or left.get(name) in EXPECTED)
                and (remark := about_others(old, name, by_host, chosen[name]))
            ),
            *(
                f"{path_text(old, name)} comes to {fold(hosts)}, too, with a deployment, unless keep_files is set."
                for name in taken
                if (hosts := lacking(old, name, names[name]))
            ),
        ),
    )


def for_all(old: OldCluster, by_host: Mapping[str, FoundFile], own: Sequence[str]) -> FoundFile | None:
    """The file that all hosts get: the controller's, else one that most of the others have, and no host alone.

    What it says runs as root everywhere, so no word of one host counts. `own`: the hosts with files of their own.
    """
    if old.found.controller in by_host:
        return by_host[old.found.controller]
    alike = Counter((file.text, file.mode & 0o111) for file in by_host.values())
    (most, count), among = alike.most_common(1)[0], [host for host in own if host != old.found.controller]
    if count < LEAST_ALIKE or count * 2 <= len(among):
        return None
    return next(file for file in by_host.values() if (file.text, file.mode & 0o111) == most)


def carried_name(old: OldCluster, host: str, path: str) -> str:
    """The name of a host's file in Slurm's directory if it may come along; empty otherwise."""
    name = path.removeprefix(f"{old.directory}/")
    is_other = name not in WITH_KEYS and path not in old.included.get(host, ()) and not name.endswith(SECRETS)
    return name if path != name and is_other else ""


def path_text(old: OldCluster, name: str) -> str:
    """The path of a file, for people, on one line."""
    path = f"{old.directory}/{name}"
    return path if path.isprintable() else ascii(path)


def bytes_of(file: FoundFile) -> bytes:
    """The content of a file."""
    return file.text.encode("utf-8", "surrogateescape")


def reason_against(old: OldCluster, name: str, chosen: FoundFile | None, by_host: Mapping[str, FoundFile]) -> str:
    """Why a file does not come along; empty if it does.

    `chosen`: that which all hosts would get; `None` for none. `by_host`: the file of each host that has it.
    """
    file = chosen or next(iter(by_host.values()))
    texts = {file.text for file in by_host.values()}
    hosts = "; ".join(fold(host for host, file in by_host.items() if file.text == text) for text in sorted(texts))
    plugins = old.setting("JobSubmitPlugins").lower().split(",")
    reasons = {
        "its name is not FILE or DIRECTORY/FILE of plain characters": not NAME.fullmatch(name),
        f"it has {len(bytes_of(file)) >> 10} KiB, and at most {LARGEST_FILE >> 10} KiB come along": (
            len(bytes_of(file)) > LARGEST_FILE
        ),
        UNUSED: name == JOB_SUBMIT and "lua" not in plugins,
        PACKAGED: name == PLUGSTACK and file.text == PACKAGED_PLUGSTACK,
        OURS: name == JOB_SUBMIT and file.text.startswith(MADE_BY_SLURMFAB),
        f"it differs between hosts ({hosts})": chosen is None and len(texts) > 1,
        (
            f"it is on {fold(by_host)}, and neither on {old.found.controller} nor on most other hosts. To give it to "
            f"all hosts, copy it to {FOLDER}/{name} beside the cluster file, and name it there: slurm_files: "
            f"{{{name}: {FOLDER}/{name}}}"
        ): chosen is None,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def beyond(taken: Mapping[str, FoundFile]) -> Iterator[str]:
    """Yield the names of files for which the cluster file has no room after those before them."""
    total = 0
    for number, (name, file) in enumerate(taken.items()):
        total += len(bytes_of(file))
        if number >= MOST_FILES or total > LARGEST_SUM:
            yield name


def lacking(old: OldCluster, name: str, by_host: Mapping[str, FoundFile]) -> list[str]:
    """The hosts that have no file of this name, and get it."""
    if is_for_controllers(name):
        return []
    return [
        host
        for host, found in old.found.hosts.items()
        if host not in by_host and not (found.configless and is_served(name, old.version))
    ]


def about_others(old: OldCluster, name: str, by_host: Mapping[str, FoundFile], chosen: FoundFile | None) -> str:
    """A remark about hosts with another file of this name than all hosts get; empty for none."""
    alike = (chosen.text, chosen.mode & 0o111) if chosen else ()
    others = [host for host, file in by_host.items() if (file.text, file.mode & 0o111) != alike]
    if not others or not chosen:
        return ""
    is_ours = old.found.controller in by_host
    whose, wins = ("the controller", "the controller's") if is_ours else ("most hosts", "the latter")
    is_packaged = name == PLUGSTACK and chosen.text == PACKAGED_PLUGSTACK
    then = "it stays there" if is_packaged else f"a deployment gives all hosts {wins}, unless keep_files is set"
    return f"{path_text(old, name)} of {fold(others)} differs from that of {whose}; {then}."
