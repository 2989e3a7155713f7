"""`fab rehearse -- import`: a cluster that was made by hand is taken over on a twin, which is made by hand as well."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from slurmfab.base import terminal
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE
from slurmfab.base.hostlist import expand
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.commands.import_cluster import database, importing, writing
from slurmfab.commands.import_cluster.asked import Asked
from slurmfab.commands.import_cluster.importing import ImportOptions
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.nodes import discovery
from slurmfab.commands.rehearse import hand_made, programs, real_cluster, rehearsing, twin, workload
from slurmfab.commands.rehearse.hand_made import Making
from slurmfab.commands.rehearse.real_cluster import Real
from slurmfab.commands.rehearse.rehearsing import Original, Start, Wanted
from slurmfab.commands.rehearse.stage import ended_in_order, standing
from slurmfab.commands.rehearse.twin import Chosen, Twin
from slurmfab.commands.rehearse.verdict import Rehearsal
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.hosts.session import answer_value
from slurmfab.hosts.transport import Transport
from slurmfab.lab import twins
from slurmfab.on_hosts.agent.files.owners import Owned

NEVER_READ = (
    "jobs and history of the cluster: the twin begins without, and with jobs like last week's",
    "options of daemons in /etc/default, which an import does not read",
)
"""What of a cluster the twin does not have."""

PACKAGED = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/")  # directories of programs that packages have


@dataclass(frozen=True)
class Source:
    """The cluster that is to be taken over."""

    hosts: str  # of it, as the user typed them
    connection: ConnectionOptions
    options: ImportOptions
    with_programs: bool = False  # whether programs of the hosts run on the twin, if the user says so again

    @property
    def words(self) -> tuple[str, ...]:
        """The options of the import that say what becomes of the cluster."""
        return ("--adopt", self.options.adopt, *(["--keep-files"] if self.options.keep_files else []))


def rehearse(cluster: str, source: Source, wanted: Wanted, output: Output) -> int:
    """Rehearse an import and the first deployment.

    Raises InputError if the cluster cannot be imported, or a cluster file exists already; SlurmfabError if there can be
    no twin of it.
    """
    begun, path = datetime.now(timezone.utc), loading.named_path(cluster)
    rehearsing.require_lab()
    with ended_in_order(), twins.alone(rehearsing.lab_name(path)) as directory:
        asked, takeover = importing.surveyed(path, source.hosts, source.connection, output, source.options)
        place = directory / "found" / path.name
        place.parent.mkdir()
        known = writing.write(place, takeover, lambda made: importing.lock_of(made, asked))
        chosen, original, real = prepared(known, asked, wanted, output)
        if source.with_programs:
            ask_for_programs(real, chosen)
        made = twin_of(rehearsing.lab_name(path), real, chosen, original.codename)
        lacks = () if source.with_programs else programs.left_out(real.files_of(chosen.hosts))
        made = replace(made, unknown=(*made.unknown, *lacks))
        progress = output.progress()
        empty = directory / path.name  # the twin gets none of the files beside the cluster file
        told = (*importing.remarks(asked), *takeover.remarks)
        with standing(made, empty, lambda line: progress.line(f"twin: {line}"), keep=wanted.keep) as stage:
            making = Making(real, stage, twin.placed(made, stage.lab), source.with_programs)
            start = Start(begun, told=told, is_repair=True)
            with rehearsing.stages(progress) as tell:
                found = carried_out(original, making, (source, wanted), start, tell)
    return rehearsing.show(found, stage, output, keep=wanted.keep)


def prepared(known: Inventory, asked: Asked, wanted: Wanted, output: Output) -> tuple[Chosen, Original, Real]:
    """The hosts of the twin, and what else the real hosts have to tell; none is asked any more afterwards.

    Raises InputError, LabError if there can be no twin.
    """
    old = OldCluster(asked.cluster)
    refuse_without_twin(old, known)
    named = tuple(expand(wanted.cut)) if wanted.cut else ()
    chosen = twin.choose([(known.cluster, known.lock)], named)
    for host in chosen.hosts:
        own = asked.cluster.hosts.get(host)
        for file in (*own.files, *own.drop_ins) if own else ():
            if not file.path.startswith(real_cluster.FETCHED):
                programs.require_possible(host, file)
        for path in real_cluster.written(old, host, own or asked.cluster.hosts[asked.cluster.controller]):
            programs.require_log(host, path)
    rehearsing.refuse_unknown(chosen, named)
    rehearsing.require_machine(chosen)
    notes = [f"{host} did not answer: {reason}" for host, reason in importing.silent(asked).items()]
    there = [host for host in chosen.hosts if host in asked.discovered]
    run = session.start(known, ",".join(there), output, RunOptions("rehearse", installs_python=False))
    with session.ending(run, tells=False):
        jobs = workload.ask(known.cluster, run.transport)
        requests = {host: real_cluster.places(old, host, asked.cluster.hosts[host]) for host in there}
        owners, lost = discovery.on_all(there, lambda host: owners_on(run.transport, host, requests[host]))
    notes += [str(error) for error in lost.values()]
    codename = asked.cluster.facts[asked.cluster.controller].codename
    original = Original(known, known, codename, None, jobs, tuple(notes))
    return chosen, original, Real(old, known, owners, jobs)


def ask_for_programs(real: Real, chosen: Chosen) -> None:
    """Show the programs of hosts that would run on the twin, and ask; SlurmfabError unless the answer is yes."""
    text = programs.shown(real.files_of(chosen.hosts))
    if text and not terminal.can_ask():
        raise InputError("--with-programs shows the programs and asks, which needs a terminal. Nothing was started.")
    if text:
        terminal.write(text, sys.stderr)
        if not terminal.agrees("Run these on the twin, as its hosts run them on the cluster? [y/N] "):
            raise SlurmfabError("Nothing was started.")


def refuse_without_twin(old: OldCluster, known: Inventory) -> None:
    """Refuse, by InputError, a cluster of which no twin can be made by hand."""
    if old.platform != DEBIAN:
        raise InputError(
            f"The import of a cluster with {old.platform.title} cannot be rehearsed, only of one with "
            f"{DEBIAN.title}. Nothing was started."
        )
    if database.unmanageable(old):
        raise InputError(
            f"The import cannot be rehearsed: {database.unmanageable(old)}, so the twin would have no slurmdbd. "
            "Nothing was started."
        )
    if known.cluster.database and not old.found.accounts:
        raise InputError(
            "The import cannot be rehearsed: slurmdbd did not tell of its accounts, so the twin would have none. "
            "Nothing was started."
        )


def owners_on(transport: Transport, host: str, paths: Sequence[str]) -> tuple[Owned, ...]:
    """Whose some files and directories of a host are, and those above them; HostError if it does not answer."""
    lines = transport.call(host, {"op": "owners", "paths": list(paths)})
    return tuple(Owned(*row) for row in answer_value(host, lines, "owners"))


def twin_of(name: str, real: Real, chosen: Chosen, codename: str) -> Twin:
    """The twin, with the packages that the real hosts have, before its lab is up. `name`: of its lab."""
    cluster = real.cluster
    made = twin.make(name, chosen, [(cluster, real.known.lock)], codename)
    spec = replace(made.spec, packages=real_cluster.packages(real, made))
    programs = sorted({path for host in chosen.hosts for path in real_cluster.stand_ins(real, host)
                       if not path.startswith(PACKAGED)})  # fmt: skip
    lacks = [f"programs of the site that do nothing on the twin: {', '.join(programs)}"] if programs else []
    power = ["nodes that Slurm switches off: those of the twin stay on"] if real.old.setting("SuspendTime") else []
    return replace(made, spec=spec, unknown=(*made.unknown, *NEVER_READ, *lacks, *power))


def carried_out(
    original: Original, making: Making, asked_for: tuple[Source, Wanted], start: Start, tell: Callable[[str], None]
) -> Rehearsal:
    """Make the twin by hand, import it, begin jobs there, and deploy; and what that did.

    Raises SlurmfabError if the twin cannot be made, or cannot be imported.
    """
    source, wanted = asked_for
    stage = making.stage
    tell("twin: is made by hand like the cluster")
    hand_made.make(making)
    tell("twin: is imported")
    import_twin(making, source)
    before = rehearsing.checked(stage)
    jobs = rehearsing.begin_jobs(original, wanted, stage)
    found = rehearsing.played(original, wanted, stage, replace(start, checked=before, jobs=jobs), tell)
    stand_ins = {host: real_cluster.stand_ins(making.real, host) for host in stage.twin.hosts}
    if not making.with_programs:
        stand_ins = {host: (*paths, *programs.FUNCTIONS, *(file.path for _, file in making.real.files_of([host])))
                     for host, paths in stand_ins.items()}  # fmt: skip
    calls = [(host, name) for host, names in stand_ins.items()
             for name in stage.shell(programs.CALLS, host).splitlines() if name in names]  # fmt: skip
    return replace(found, told=(*found.told, *programs.told(calls)))


def import_twin(making: Making, source: Source) -> None:
    """Import the twin. Raises SlurmfabError, with the reasons, if that fails."""
    stage, controller = making.stage, making.real.cluster.controller
    hosts = [stage.lab.host(inner) for inner in making.twin.hosts.values()]
    keys = "".join(f"{host.address} {kind} {key}\n" for host in hosts for kind, key in host.host_keys.items())
    (stage.home / ".ssh/known_hosts").write_text(keys)
    way = ("--hosts", making.twin.addresses[controller], "--user", "root", "--key", making.twin.ssh_key)
    done = stage.carry_out("import", *way, *source.words)
    if done.exit_code != DONE:
        lines = "\n".join(rehearsing.last_lines(done, stage.cluster_file.parent))
        raise SlurmfabError(f"The twin could not be imported, so the deployment was not rehearsed:\n{lines}")
