"""The files of a support bundle by name, from this machine and from hosts, before secrets are taken out."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from slurmfab import __version__
from slurmfab.base import atomic_file, bounded_file
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.program_name import FAB
from slurmfab.cluster import facts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks import kept
from slurmfab.commands.support_bundle.gathering import Gathered
from slurmfab.core.engine import record

MOST_RUNS = 20  # how many records of runs there are, the newest ones

NOTHING_MISSING = "Nothing is missing.\n"

MOST_CHARACTERS = 2 << 20  # the most characters of one file of this machine

UNTOLD_FACTS = ("uids", "gids", "busy_uids", "slurm_use", "slurm_conf", "slurm_conf_parts", "gres_conf", "cgroup_conf")
"""Facts that are many, or files of their own."""

README = """\
Made by {program} support-bundle of slurmfab {version}, for asking for help.

missing.txt       hosts that did not answer, and what is not here or not whole
versions.txt      slurmfab and Python here; operating system, Slurm and Python of each host
clocks.txt        how far each host's clock is from that of the machine where this was made
cluster/          the cluster file and its lock
checks.json       the results of the last check-cluster, if there are any
runs/             the newest records of runs: who changed what, and what failed (without copies of the cluster file)
runs.txt          the same, a line for each
hosts/HOST/
    facts.json    what slurmfab has found there: hardware, GPUs, control groups, packages
    slurm/        Slurm's configuration files as the host has them, and what extends its units
    system/       kernel, units, packages, disks, memory, clock, network, GPUs, slurmd
    logs/         the ends of the logs of slurmctld, slurmd, slurmdbd, munged and the kernel
    kept/         results of GPU checks and acceptance jobs, drift
    state/        on the controller: Slurm's configuration, nodes, partitions, reasons of drains, scheduler, and the
                  queue without what users have named

(not-shown) stands for a secret, or for what looks like one, (digest-N) for a long hexadecimal number, the same for
equal ones. Keys, password files and the site's own programs are not collected at all.

Names are not hidden: of people, hosts, domains, projects and the cluster; nor are addresses and public keys. Give this
to those alone who may know them.
"""


def files(known: Inventory, gathered: Gathered, unread: Mapping[str, str]) -> dict[str, str]:
    """The texts of a support bundle by name. `unread`: why secrets of this machine could not be read, by key."""
    found = dict(of_here(known))
    for host, answer in gathered.answers.items():
        found |= {f"hosts/{host}/{name}": text for name, text in answer.files.items()}
        if answer.facts is not None:
            found[f"hosts/{host}/facts.json"] = facts_text(answer.facts)
    found["versions.txt"] = versions(gathered)
    found["clocks.txt"] = "".join(f"{host}: {one.clock_offset:+.3f} s\n" for host, one in facts_of(gathered))
    found["missing.txt"] = missing(gathered, unread)
    found["README.txt"] = README.format(program=FAB, version=__version__)
    return found


def of_here(known: Inventory) -> Iterator[tuple[str, str]]:
    """Yield name and text of the cluster file, the lock, the records of runs and the last checks."""
    for path, name in ((known.path, "cluster/cluster.yaml"), (loading.lock_path(known.path), "cluster/lock.json")):
        try:
            yield name, bounded_file.read(path, loading.MOST_BYTES).decode(errors="replace")
        except (OSError, BrokenFile) as error:
            yield name, f"{error}\n"
    records, complaints = record.load_all(known.path)
    lines = [
        f"{one.run}  {one.by}  {result(one)}  {', '.join(one.hosts[:8])}{' ...' if len(one.hosts) > 8 else ''}"  # noqa: PLR2004
        for one in records
    ]
    yield "runs.txt", "\n".join((*lines, *complaints, ""))
    for path in atomic_file.kept(kept.directory(known.path), known.path)[-1:]:
        yield "checks.json", without_copies(path, known.path)
    for one in records[-MOST_RUNS:]:
        yield f"runs/{one.run}.json", without_copies(record.directory(known.path) / f"{one.run}.json", known.path)


def result(one: record.Record) -> str:
    """How a run ended, in one line."""
    end = f"exit code {one.exit_code}" if one.ended else "unfinished"
    return f"{end}: {' '.join(one.error.split())[:300]}" if one.error else end


def without_copies(path: Path, cluster_file: Path) -> str:
    """The JSON of a record without its copies of the cluster file and the lock."""
    try:
        values = json.loads(atomic_file.read_private(path, record.MOST_BYTES, cluster_file))
    except (OSError, ValueError, RecursionError, BrokenFile, InputError) as error:
        return f"{error}\n"
    if isinstance(values, dict):
        values = {key: value for key, value in values.items() if key not in ("cluster_file", "lock")}
    return json.dumps(values, indent=1, ensure_ascii=False)[:MOST_CHARACTERS] + "\n"


def facts_text(one: facts.HostFacts) -> str:
    """Facts of a host as JSON, without files and lists of all users."""
    values: dict[str, Any] = facts.adapter().dump_python(one, mode="json")
    return json.dumps({key: value for key, value in values.items() if key not in UNTOLD_FACTS}, indent=1) + "\n"


def versions(gathered: Gathered) -> str:
    """The versions of what is at work here and on each host."""
    here = f"here: slurmfab {__version__}, Python {platform.python_version()}, {platform.platform()}"
    hosts = [
        f"{host}: {one.os_id} {one.codename} {one.architecture}, Slurm {one.slurm_version or '-'}, Python {one.python}"
        for host, one in facts_of(gathered)
    ]
    return "\n".join((here, *hosts, ""))


def facts_of(gathered: Gathered) -> Iterator[tuple[str, facts.HostFacts]]:
    """Yield each host with its facts, sorted by name."""
    for host, answer in sorted(gathered.answers.items()):
        if answer.facts is not None:
            yield host, answer.facts


def with_lines(missing_text: str, lines: Iterable[str]) -> str:
    """The text of missing.txt with further lines."""
    more = "".join(f"{line}\n" for line in lines)
    return (more if missing_text == NOTHING_MISSING else missing_text + more) if more else missing_text


def missing(gathered: Gathered, unread: Mapping[str, str]) -> str:
    """What is not in the bundle: silent hosts, files, and secrets that could not be looked for."""
    lines = [f"{host}: {' '.join(reason.split())}" for host, reason in sorted(gathered.missing.items())]
    if gathered.missing:
        lines.append(
            "The secrets of these hosts are not known, so only what looks like a secret was taken out of the texts of "
            "others: have a look before you send this."
        )
    lines += [
        f"{key}: the secret could not be read, so it was not looked for: {' '.join(reason.split())}"
        for key, reason in unread.items()
    ]
    lines += [
        f"{host}: {name}: {reason}"
        for host, answer in sorted(gathered.answers.items())
        for name, reason in sorted(answer.left.items())
    ]
    return "\n".join((*lines, "")) if lines else NOTHING_MISSING
