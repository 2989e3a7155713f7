"""`fab rehearse`: carries a command out on a twin of the cluster, and tells how that went."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

from slurmfab import lab as labs
from slurmfab.base import atomic_file, strict_json, terminal
from slurmfab.base.errors import InputError, LabError, SlurmfabError
from slurmfab.base.exit_codes import DONE, WRONG_INPUT
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import loading, reading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.shared_files import FilesRead
from slurmfab.commands.backup.archive import Backup
from slurmfab.commands.backup.trust import TRUSTED
from slurmfab.commands.rehearse import named, playing, refused, restored, twin, workload
from slurmfab.commands.rehearse.jobs_there import has_jobs
from slurmfab.commands.rehearse.playing import Before, Outcome, Site
from slurmfab.commands.rehearse.stage import LONGEST, Done, Stage, ended_in_order, standing
from slurmfab.commands.rehearse.verdict import Attempt, Rehearsal, durations, write
from slurmfab.commands.rehearse.workload import Workload
from slurmfab.core.engine import missing_lock, record, rehearsals, session
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.record import Record
from slurmfab.core.engine.rehearsals import Rehearsed
from slurmfab.core.engine.requests import gather
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.saved_plan import Files
from slurmfab.core.engine.session import Output
from slurmfab.core.status import snapshot
from slurmfab.hosts.transport import Transport
from slurmfab.lab import needs, twins
from slurmfab.on_hosts.agent.client import commands

WAITING_FOR_JOBS = frozenset({"--drain", "--drain-first", "remove-node"})  # words of commands that wait for jobs to end
HOST_MEMORY = 400 << 20  # bytes that a host of the twin needs, with its disk
FIRST_KILL, KILL_STEP = 0.2, 2.0  # seconds of work after which the first run is killed, and how much later each next
CUT_AFTER, CUT_SECONDS = 0.2, 5.0  # after how much work the power of a host is cut, and for how long
POLL_SECONDS = 0.02
CHECK_SECONDS = 300.0  # how long check-cluster may take
MOST_LINES, LONGEST_LINE = 12, 1000  # lines of a command's errors that are told, and their characters
LAST_OUTPUT = 2  # lines of its output that are told where it has no other reason
DEPLOYING = ("add-node", "deploy", "import", "remove-node", "replace-node", "restore", "upgrade")
"""Commands after which the hosts are as the cluster file in their record says."""

ABANDONED = "error: Orphan StepId="  # how slurmctld begins to tell of steps of jobs that it does not know, and ends
END_SECONDS = 30.0  # how long jobs of a backup may take to end

_CHECK_FAILED = re.compile(r"^(?:FAILED +(.+(?:\n  .+)*)|(LOST: .+))", re.MULTILINE)
"""In the output of a command: a check that failed at its end, or a job that was lost."""

_TIMED = re.compile(r" s\)\.?$")  # the end of a line of progress, or of a run's summary: no cause, but its time
_PLACE = re.compile(r":\d+(?=: )")  # a line of the twin's cluster file, which has other lines than the real one
_REFUSED = re.compile(
    r"^Refused, [^\n]*:\n(.*?)(?:\n\n|\Z)", re.MULTILINE | re.DOTALL
)  # the reasons in an upgrade's plan


@dataclass(frozen=True)
class Wanted:
    """What is to be rehearsed."""

    words: tuple[str, ...]  # the command line, without the program's name, `--cluster` and `--json`
    hosts: str = ""  # hostlist of the hosts that it names
    kills: int = 0  # how many times it is killed
    cut: str = ""  # the host whose power is cut; empty for none
    keep: bool = False  # whether the twin stays up
    identity: str = ""  # file with the private key that decrypts backups; empty for none
    shown: str = ""  # the command line for people, where it is another one than on the twin

    @property
    def command(self) -> str:
        """The command line for people."""
        return self.shown or shlex.join(self.words)


@dataclass(frozen=True)
class Original:
    """What is known of the real cluster; no host of it is asked any more."""

    known: Inventory  # as it shall be: the files here
    former: Inventory  # as it is deployed
    codename: str  # of the controller's distribution; empty if it did not answer
    backup: Backup | None  # the newest one
    workload: Workload  # the kinds of last week's jobs
    notes: tuple[str, ...] = field(default=())  # what could not be found out, for people
    refused: tuple[str, ...] = field(default=())  # why its own hosts refuse the command, for people


def rehearse(cluster: str, wanted: Wanted, output: Output) -> int:
    """Rehearse a command. Raises InputError for wrong input; SlurmfabError if there can be no twin of the cluster."""
    known = loading.load_named(cluster)
    missing_lock.require_deployed(known)
    require_lab()
    with ended_in_order(), twins.alone(lab_name(known.path)), ExitStack() as decrypted:
        return on_twin(known, wanted, output, decrypted)


def on_twin(known: Inventory, wanted: Wanted, output: Output, decrypted: ExitStack) -> int:
    """Rehearse a command of a cluster; raises as `rehearse`. `decrypted`: holds the decrypted backups open."""
    begun, progress = datetime.now(timezone.utc), output.progress()
    files, deployed = Files.of(known.path), former(known)
    archive = restored.to_restore(wanted.words, known.path, wanted.identity, decrypted)
    versions = [(one.cluster, one.lock) for one in (deployed or known, known)]
    twin.refuse_without_twin(cluster for cluster, _ in versions)
    named = tuple(host for text in (wanted.hosts, wanted.cut) if text for host in expand(text))
    chosen = twin.choose(versions, named)
    refuse_unknown(chosen, named)
    require_machine(chosen)
    original = questions(known, deployed, wanted, output, decrypted)
    overwrites = archive is not None and "--overwrite" not in wanted.words and not has_jobs(known, archive, output)
    made = twin.make(lab_name(known.path), chosen, versions, original.codename)
    with standing(made, known.path, lambda line: progress.line(f"twin: {line}"), keep=wanted.keep) as stage:
        words = restored.words_for_twin(wanted.words, archive, stage.home)
        words += ("--overwrite",) * overwrites  # there are jobs on the twin alone: those of the rehearsal
        on_it = replace(wanted, words=words, shown=wanted.command)
        with stages(progress) as tell:
            found = carried_out(original, on_it, stage, tell, begun)
    keep_record(known.path, files, found)
    return show(found, stage, output, keep=wanted.keep)


@contextmanager
def stages(progress: Progress) -> Iterator[Callable[[str], None]]:
    """What tells at which stage a rehearsal is; on a terminal in a line that shows for how long."""
    try:
        yield (lambda text: progress.begin(text, ())) if progress.is_terminal else progress.line
    finally:
        progress.end()


def show(found: Rehearsal, stage: Stage, output: Output, *, keep: bool) -> int:
    """Write what a rehearsal found, and where its twin stays, if it does; the exit code."""
    output.write_json(found)
    write(found, output.stream, verbose=output.verbose)
    if keep:
        removal = f"{FAB} lab-down --name {stage.lab.name}"
        output.progress().line(f"The twin stays up: {stage.cluster_file}. To remove it: {removal}.")
    return found.exit_code


def lab_name(path: Path) -> str:
    """The name of the twin's lab, which follows from the cluster file's path."""
    return "t" + hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:7]


def refuse_unknown(chosen: twin.Chosen, named: Sequence[str]) -> None:
    """Refuse hosts that the cluster does not have, by InputError."""
    if unknown := [host for host in named if host not in chosen.hosts]:
        raise InputError(f"{fold(unknown)}: not in the cluster file. Nothing was started.")


def require_lab() -> None:
    """Check that there can be twins on this machine. Raises LabError, with what is missing, if there cannot."""
    if reason := labs.obstacle():
        raise LabError(reason)


def require_machine(chosen: twin.Chosen) -> None:
    """Check that this machine can run the twin. Raises LabError, with what is missing, if it cannot."""
    if not labs.names():  # another lab shows that it can have one
        needs.require()
    available, needed = needs.available_memory(), len(chosen.hosts) * HOST_MEMORY
    if available < needed:
        raise LabError(
            f"A twin of {len(chosen.hosts)} hosts ({fold(chosen.hosts)}) needs {needed >> 20} MiB of memory, and this "
            f"machine has {available >> 20} MiB left. Nothing was started. Rehearse on a larger machine."
        )


def questions(
    known: Inventory, deployed: Inventory | None, wanted: Wanted, output: Output, decrypted: ExitStack
) -> Original:
    """Ask the real cluster, and look at its newest backup; InputError for an upgrade that leads nowhere.

    `deployed`: the cluster as it is now, if that is known. `decrypted`: holds the decrypted backup open.
    """
    notes: list[str] = []
    if deployed is None:
        notes.append("What is deployed is not on record here: the twin began with the cluster file as it is now.")
    codename, played, controller = "", workload.from_file(known.cluster), known.cluster.controller
    run = session.start(known, controller, output, RunOptions("rehearse", installs_python=False))
    try:
        with session.ending(run, tells=False):
            codename = gather(run, (controller,), may_prepare=False)[controller].codename
            played = workload.ask(known.cluster, run.transport)
    except SlurmfabError as error:
        why = run.failed_hosts.get(controller, error)
        notes.append(f"The controller did not answer, and its distribution is taken from the lock: {why}")
    reasons, unknown = refused.of_upgrade(known, wanted.words, output)
    backup, note = restored.newest(known.path, wanted.identity, decrypted)
    told = tuple(filter(None, (*notes, *unknown, note)))
    return Original(known, deployed or known, codename, backup, played, told, reasons)


def former(known: Inventory) -> Inventory | None:
    """The cluster as it is deployed, by the records of runs; `None` where there are none."""
    records, _ = record.load_all(known.path)
    for one in reversed(records):
        is_deployment = one.command in DEPLOYING and not one.only
        if is_deployment and one.cluster_file and one.lock and one.ended and one.exit_code == DONE:
            with suppress(InputError):
                text, lock = one.cluster_file, json.dumps(one.lock).encode()
                files = FilesRead(text.encode(), lock, one.ended.timestamp())
                there = loading.parse(text, str(known.path))
                return Inventory(there, locks.parse(lock, known.path), known.path, files)
    return None


@dataclass(frozen=True)
class Checked:
    """The result of check-cluster on the twin."""

    headline: str
    failed: Mapping[tuple[str, str, str], str]  # what failed, for people, by group, check and host


@dataclass(frozen=True)
class Start:
    """The twin just before the command."""

    begun: datetime  # when the rehearsal began
    checked: Checked = field(default_factory=lambda: Checked("", {}))
    jobs: Before = field(default_factory=Before)
    told: tuple[str, ...] = ()  # what the command tells besides what it changes, for people
    is_repair: bool = False  # whether the command repairs what checks find, so that only what they find later counts


def carried_out(
    original: Original, wanted: Wanted, stage: Stage, tell: Callable[[str], None], begun: datetime
) -> Rehearsal:
    """Bring the twin to the state of the cluster, carry the command out there, and look at what that did."""
    made = twin.placed(stage.twin, stage.lab)
    write_files(original.former, made, stage, with_lock=True)
    tell("twin: is brought to the state of the cluster")
    bring_up(original, stage)
    before, jobs = checked(stage), begin_jobs(original, wanted, stage)
    write_files(original.known, made, stage)
    return played(original, wanted, stage, Start(begun, before, jobs), tell)


def played(original: Original, wanted: Wanted, stage: Stage, start: Start, tell: Callable[[str], None]) -> Rehearsal:
    """Carry the command out on a twin that is like the cluster, and look at what that did."""
    made = twin.placed(stage.twin, stage.lab)
    tell(f"rehearsing: {wanted.command}")
    earlier = {one.run for one in records_of(stage)}
    attempts, last = attempted(wanted, stage)
    tell("twin: its jobs and checks are looked at")
    runs = [one.steps for one in records_of(stage) if one.run not in earlier]
    outcome, after = end_jobs(original, wanted, stage, start.jobs), checked(stage)
    before = start.checked
    found = [*original.refused, *failure(wanted, last, stage), *harm(wanted, outcome)]
    if last.exit_code != WRONG_INPUT or any(runs):  # the cluster file that was refused is no fault of the hosts
        found += worse_checks(before, after)
    known = [text for key, text in before.failed.items() if not start.is_repair or key in after.failed]
    look_at = [f"Already before, check-cluster failed: {one}" for one in known]
    look_at += [f"After the command, slurmctld writes: {one}" for one in unexpected(wanted, outcome)]
    look_at += [*named_in_vain(original, stage), *outcome.moved, *original.notes]
    return Rehearsal(
        original.known.cluster.name, wanted.command, start.begun, tuple(found), tuple(look_at), attempts,
        sum(runs, ()), durations(runs, made.standing_for, at_once_of(wanted)), outcome.lines, before.headline,
        after.headline, {host: made.standing_for.get(host, ()) for host in made.hosts},
        original.backup.made if original.backup else "",
        made.unknown if original.workload.is_recorded else (*made.unknown, workload.NO_RECORDS), start.told,
    )  # fmt: skip


def named_in_vain(original: Original, stage: Stage) -> list[str]:
    """Programs and parameters that the change names in slurm.conf, and that are not there."""
    both = original.former.cluster, original.known.cluster
    there = (*both, tuple(stage.twin.hosts), stage.shell)
    return [*named.missing(*there), *named.unknown_words(*there)]


def write_files(some: Inventory, made: twin.Twin, stage: Stage, *, with_lock: bool = False) -> None:
    """Write the twin's cluster file, and its first lock; SlurmfabError if the file allows no twin."""
    text = some.files.cluster.decode() if some.files and some.files.cluster else loading.read_text(some.path)
    twin_text = twin.file_text(reading.read(text, str(some.path)).shape, some.cluster, some.lock, made)
    try:
        loading.parse(twin_text, "the twin's cluster file")
    except InputError as error:
        raise SlurmfabError(f"There can be no twin of this cluster: {error}") from error
    atomic_file.write(stage.cluster_file, twin_text)
    if with_lock:
        atomic_file.write(loading.lock_path(stage.cluster_file), twin.lock_text(some.lock, made, stage.lab))


def bring_up(original: Original, stage: Stage) -> None:
    """Deploy what is deployed on the cluster, with the state of its backup; SlurmfabError if that fails."""
    named.stand_ins(original.former.cluster, tuple(stage.twin.hosts), stage.shell)
    if not original.former.cluster.unix_users:
        make_people(original, stage)
    if not original.former.cluster.hosts_file:
        stage.name_hosts()
    runs: list[tuple[str, ...]] = [("deploy", "--move-ids")]  # the packages have made the users by other numbers
    if original.backup:
        path = restored.copied(original.backup, stage.home)
        runs.append(("restore", str(path), "--trust-archive", "--abandon-jobs"))
    for words in runs:
        done = stage.carry_out(*words)
        if done.exit_code != DONE:
            raise SlurmfabError(
                "The twin could not be brought to the state of the cluster, so nothing was rehearsed. There "
                f"{words[0]} failed: " + "\n".join(last_lines(done, stage.cluster_file.parent))
            )
    if original.backup:
        end_running(stage)
        keep_away(stage, original.former.cluster)


def make_people(original: Original, stage: Stage) -> None:
    """Make the users and groups of a cluster that gets them from elsewhere, as from a directory."""
    cluster, jobs = original.former.cluster, original.workload
    script = playing.people_script(jobs, [user.name for user in (*cluster.users, *original.known.cluster.users)])
    for host in stage.twin.hosts:
        stage.shell(script + playing.groups_script(jobs, cluster.partitions), host)


def keep_away(stage: Stage, cluster: Cluster) -> None:
    """Have Slurm take nodes that the twin lacks for not there again, which they are not while jobs of a backup run."""
    if left := [host for host in cluster.compute_nodes if host not in stage.twin.hosts]:
        for state in (("State=DOWN", "Reason=rehearsal"), ("State=FUTURE",)):
            stage.shell(shlex.join(commands.update_nodes(left, *state)))


def end_running(stage: Stage) -> None:
    """End the jobs that ran when a backup was made: the twin lacks their steps, so that Slurm would call them lost."""

    def ids(states: str) -> list[str]:
        return stage.shell(shlex.join(commands.ids_of_jobs(f"--states={states}"))).split()

    if running := ids("running,suspended,configuring"):
        stage.shell(shlex.join(commands.cancel(running)))
    deadline = time.monotonic() + END_SECONDS
    while ids("running,suspended,completing") and time.monotonic() < deadline:
        time.sleep(0.5)


def begin_jobs(original: Original, wanted: Wanted, stage: Stage) -> Before:
    """Submit jobs like last week's on the twin, and see how each kind fares."""
    script = playing.people_script(original.workload)
    for host in stage.twin.hosts:
        stage.shell(script, host)
    controller = original.former.cluster.controller
    with stage.transport() as transport:
        nodes = snapshot.ask_up(transport, controller, ("nodes",)).nodes
        site = site_of(original.former.cluster, transport, stage)
        kinds = (*workload.fit(original.workload, nodes), *workload.plain(original.workload))
        if wanted.words[0] == "restore" and "--abandon-jobs" not in wanted.words:  # it refuses to end one that runs
            return Before(playing.probe(site, kinds), (), site.errors())
        seconds = playing.DRAINED if WAITING_FOR_JOBS & {*wanted.words} else playing.DAY
        return playing.begin(site, kinds, nodes, seconds)


def end_jobs(original: Original, wanted: Wanted, stage: Stage, jobs: Before) -> Outcome:
    """What became of the jobs, and how each kind fares now."""
    if wanted.words[0] == "restore":
        keep_away(stage, original.known.cluster)
    with stage.transport() as transport:
        return playing.end(site_of(original.known.cluster, transport, stage), jobs)


def site_of(cluster: Cluster, transport: Transport, stage: Stage) -> Site:
    """The twin as jobs need it: users submit them on a login host, if there is one."""
    return Site(transport.call, cluster.controller, stage.shell, login="".join(cluster.login[:1]))


def harm(wanted: Wanted, outcome: Outcome) -> list[str]:
    """What the command did to jobs, unless they were to be discarded, or a power cut ended them."""
    if outcome.tally is None:
        return list(outcome.lines[:1])
    may_lose = wanted.words[0] == "restore" and "--overwrite" in wanted.words
    without_power = frozenset(expand(wanted.cut)) if wanted.cut else frozenset()
    lost = [one.loss for one in outcome.tally.lost
            if not may_lose and without_power.isdisjoint(expand(one.nodes) if one.nodes else ())]  # fmt: skip
    return [*outcome.worse, *lost]


def unexpected(wanted: Wanted, outcome: Outcome) -> list[str]:
    """The errors that slurmctld did not write before, but for those of jobs that were to be abandoned."""
    return [one for one in outcome.errors if "--abandon-jobs" not in wanted.words or not one.startswith(ABANDONED)]


def attempted(wanted: Wanted, stage: Stage) -> tuple[tuple[Attempt, ...], Done]:
    """Carry the command out, with the faults that were asked for, until nothing disturbs it; and its last run."""
    attempts: list[Attempt] = []
    for number in range(wanted.kills):
        delay = FIRST_KILL + number * KILL_STEP
        done = stage.carry_out(*wanted.words, meanwhile=lambda process, delay=delay: kill(process, stage, delay))  # type: ignore[misc]
        fault = f"{delay:.1f} s after its first change" if done.exit_code < 0 else "it ended before it was to be killed"
        attempts.append(Attempt(done.seconds, done.exit_code, fault))
    if wanted.cut:
        host = expand(wanted.cut)[0]
        done = stage.carry_out(*wanted.words, meanwhile=lambda process: cut_power(process, stage, host))
        attempts.append(Attempt(done.seconds, done.exit_code, f"the power of {host} was cut for {CUT_SECONDS:.0f} s"))
    last = stage.carry_out(*wanted.words)
    return (*attempts, Attempt(last.seconds, last.exit_code)), last


def has_begun(process: subprocess.Popen[bytes], stage: Stage, delay: float) -> bool:
    """Wait until a command has begun with changes, of which its record tells, and some seconds; whether it goes on."""
    place = record.directory(stage.cluster_file)
    earlier = {*place.glob("*.json")}
    while process.poll() is None and not {*place.glob("*.json")} - earlier:
        time.sleep(POLL_SECONDS)
    with suppress(subprocess.TimeoutExpired):
        process.wait(delay)
    return process.poll() is None


def kill(process: subprocess.Popen[bytes], stage: Stage, delay: float) -> None:
    """Kill a command in the middle of its work, unless it ends before."""
    if has_begun(process, stage, delay):
        process.kill()


def cut_power(process: subprocess.Popen[bytes], stage: Stage, host: str) -> None:
    """Cut the power of a host while a command works, and give it back."""
    has_begun(process, stage, CUT_AFTER)
    stage.cut(host)
    time.sleep(CUT_SECONDS)
    stage.restore_power(host)


def records_of(stage: Stage) -> tuple[Record, ...]:
    """The records of runs on the twin."""
    return record.load_all(stage.cluster_file)[0]


def checked(stage: Stage) -> Checked:
    """Check the twin."""
    path = stage.home / "checks.json"
    path.unlink(missing_ok=True)
    done = stage.carry_out("check-cluster", "--json", str(path), seconds=CHECK_SECONDS)
    if not path.exists():
        late = f"it does not end in {CHECK_SECONDS:.0f} s"
        why = late if done.exit_code < 0 else " ".join(last_lines(done, stage.cluster_file.parent))
        return Checked("none could be made", {("", "", ""): why})
    told: Any = strict_json.parse(path.read_bytes(), path)
    failed = {(one["group"], one["check"], one["host"]): f"{one['host']}: {one['cause']}"
              for one in told["checks"] if one["outcome"] == "failed"}  # fmt: skip
    return Checked(f"{told['passed']} passed, {told['failed']} failed, {told['not_run']} not run", failed)


def worse_checks(before: Checked, after: Checked) -> list[str]:
    """What check-cluster finds after the command and did not find before."""
    return [f"check-cluster fails afterwards: {text}" for key, text in after.failed.items() if key not in before.failed]


def failure(wanted: Wanted, last: Done, stage: Stage) -> list[str]:
    """Why the command failed on the twin; empty if it did not."""
    if last.exit_code == DONE:
        return []
    minutes = f"was still at work after {LONGEST / 60:.0f} minutes"
    how = minutes if last.exit_code < 0 else f"ends with exit code {last.exit_code}"
    return [*last_lines(last, stage.cluster_file.parent), f"{wanted.words[0]} {how}."]


def last_lines(done: Done, place: Path) -> list[str]:
    """Why a command refused or what failed at its end, and its last errors, the cause first; without the twin's paths.

    `place`: the directory of the twin's files.
    """
    refused = _REFUSED.search(done.output)
    reasons = refused[1].splitlines() if refused else ["".join(one) for one in _CHECK_FAILED.findall(done.output)]
    output = [line.strip() for line in done.output.splitlines() if line.strip()]
    said_last = done.errors.rpartition(f"{TRUSTED}\n")[2]  # a rehearsal trusts its own copy of an archive
    errors = [line.rstrip() for line in said_last.splitlines() if line.strip()][-MOST_LINES:]
    if reasons:
        lines = [*(" ".join(reason.split()) for reason in reasons[:MOST_LINES]), *errors]
    else:
        said = [*errors, *(" ".join(line.split()) for line in output[-LAST_OUTPUT if errors else -MOST_LINES :])]
        lines = sorted(said, key=lambda line: bool(_TIMED.search(line)))
    twins = f"{place}/"
    shown = (_PLACE.sub("", line).replace(twins, "") if twins in line else line for line in lines)
    return [terminal.without_middle(line, LONGEST_LINE) for line in shown]


def at_once_of(wanted: Wanted) -> float:
    """The part of the compute nodes that an upgrade does at a time; 0 for another command."""
    if wanted.words[0] != "upgrade":
        return 0
    given = dict(pairwise(wanted.words)).get("--at-once", "10%")
    return float(given.rstrip("%")) / 100 if given.endswith("%") else 0.1


def keep_record(path: Path, files: Files, found: Rehearsal) -> None:
    """Keep the rehearsal beside the cluster file."""
    cause = found.found[0] if found.found else ""
    rehearsals.keep(path, Rehearsed(found.command, found.begun, found.verdict, cause, files.cluster, files.lock))
