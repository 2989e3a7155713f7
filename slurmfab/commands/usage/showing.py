"""`fab usage`: the figures as tables, JSON and CSV, and the sizes of directories."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TextIO, TypedDict

from slurmfab.base import atomic_file, terminal
from slurmfab.base.archive import format_size
from slurmfab.base.errors import HostFailed, InputError, SlurmfabError
from slurmfab.base.json_output import Key, as_json, keys_of, shows
from slurmfab.base.terminal import BOLD, DIM, YELLOW, Paint
from slurmfab.cluster.inventory import loading
from slurmfab.commands.usage import asking
from slurmfab.commands.usage.asking import KEYS, IdleGpus, Point, Row, Shares, Usage, Wait
from slurmfab.core.engine import session
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.status.text import colour_table
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.client.amounts import bounded, clock
from slurmfab.on_hosts.agent.people.directory_sizes import LATE, PARTLY

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.hosts.transport import Transport


HOME = "/home"  # where homes are, if the cluster file does not say it
SECONDS = 120  # time limit of the work on each host

MOST_DIRECTORIES = 30
STATES = {PARTLY: " (not all could be read)", LATE: "not measured in time"}


@dataclass(frozen=True)
class Held:
    """What a directory holds."""

    host: str  # where it is
    place: str  # the directory that it is in, such as `/home`
    name: str  # its name there
    owner: str  # whose it is
    bytes: int  # on the disk; 0 if it was not measured
    newest: int  # when something in it was last changed, in seconds since 1970; 0 if it was not measured
    state: str  # empty, `partly` (some could not be read) or `late` (not measured in time)


@dataclass(frozen=True)
class Directories:
    """What homes and scratch directories hold."""

    measured: int  # when, in seconds since 1970
    held: tuple[Held, ...]  # the directories; those first that hold most
    lost: Mapping[str, str]  # hosts that did not answer, each with the reason
    more: int = 0  # how many directories were left out because a host has too many


def places(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Which directories to look below, by host: shared homes once, where they are; others on every host."""
    found: dict[str, list[str]] = {}
    export = next((one for one in cluster.exports if one.mount is not None and one.mount == cluster.homes), None)
    if export is not None:
        found[export.host] = [export.path]
    elif cluster.homes is not None:
        found[cluster.controller] = [cluster.homes]
    else:
        found.update({host: [HOME] for host in cluster.hosts})
    if cluster.scratch is not None:
        for node in cluster.compute_nodes:
            if cluster.scratch.of_node(node):
                found.setdefault(node, []).append(cluster.scratch.path)
    return {host: tuple(paths) for host, paths in found.items()}


def ask_directories(cluster: Cluster, transport: Transport, seconds: int = SECONDS) -> Directories:
    """Measure the directories on all hosts that have some, in so many seconds on each; one request each."""
    asked = places(cluster)

    def measure(host: str) -> Mapping[str, Any]:
        request = {"op": "directory-sizes", "places": list(asked[host]), "seconds": seconds}
        found: Mapping[str, Any] = answer_value(host, transport.call(host, request), "directory_sizes")
        return found

    return collected(on_each(asked, measure))


def collected(answers: Iterable[tuple[str, Mapping[str, Any] | SlurmfabError]]) -> Directories:
    """The directories in the answers of hosts."""
    held: list[Held] = []
    lost: dict[str, str] = {}
    more = 0
    for host, answer in answers:
        if isinstance(answer, SlurmfabError):
            lost[host] = str(answer)
        else:
            held += [Held(host, *row) for row in answer["rows"]]
            more += answer["more"]
    held.sort(key=lambda one: (-one.bytes, one.host, one.place, one.name))
    return Directories(int(time.time()), tuple(held), lost, more)


def directory_table(found: Directories, paint: Paint) -> list[str]:
    """The table, and what is missing in it."""
    lines = [paint("Homes and scratch directories", BOLD)]
    if found.held:
        header = ("HOST", "DIRECTORY", "OWNER", "HOLDS", "LAST CHANGE")
        shown = found.held[:MOST_DIRECTORIES]
        lines += colour_table(
            header, [directory_cells(one) for one in shown], paint, [YELLOW * bool(one.state) for one in shown]
        )
    else:
        lines.append("There are none.")
    if len(found.held) > MOST_DIRECTORIES:
        lines.append(f"… and {len(found.held) - MOST_DIRECTORIES} more; --json has them.")
    if found.more:
        lines.append(f"{found.more} further directories were not looked at, because there are too many on one host.")
    return [*lines, *(paint(f"{host}: {why}", YELLOW) for host, why in sorted(found.lost.items()))]


def directory_cells(one: Held) -> tuple[str, ...]:
    """A directory's cells."""
    path = f"{one.place.rstrip('/')}/{one.name}"
    if one.state == LATE:
        return one.host, path, one.owner, STATES[LATE], "-"
    changed = time.strftime("%Y-%m-%d", time.localtime(bounded(one.newest))) if one.newest else "-"
    return one.host, path, one.owner, format_size(one.bytes) + STATES.get(one.state, ""), changed


NO_ACCOUNTING = (
    "Slurm keeps no records of jobs on this cluster, so what they used is unknown. Name a host for the accounting "
    "database in the cluster file (database: HOST) and deploy: jobs are on record from then on. See docs/accounting.md."
)
NO_GPUS = "Slurm's records of this cluster count no GPUs."
NO_GPU_USE = (
    "How busy GPUs were is not in Slurm's records: that takes AutoDetect=nvml or rsmi in gres.conf, and gres/gpuutil "
    "in AccountingStorageTRES. So idle GPUs are found only where a job had hardly any CPU time."
)
SOURCE = "Added up from the records of jobs (sacct); sreport shows the same for full hours, some minutes after each."
EVIDENCE = {True: "never seen busy", False: "hardly any CPU time"}
MOST_ROWS, MOST_LISTED = 30, 10
"""How many rows of the table, and how many jobs of a list the text has; JSON and CSV have more."""

LEAST_WAIT = 60  # shorter waits are no news


class RowKeys(TypedDict, total=False):
    """A row of the table: what tells it from others, of which it has those of `by`, and what its jobs used."""

    user: str  # a login name
    account: str  # a Slurm account
    partition: str  # a partition
    gpu: str  # a type of GPU; empty for jobs without GPUs


@dataclass(frozen=True)
class Capacity:
    """What the cluster had in the time."""

    cpu_seconds: int  # of all CPUs
    gpu_seconds: int  # of all GPUs


_OF_RECORDS = ("since", "until", "capacity", "tracks_gpus", "tracks_gpu_use", "by", "rows", "total", "over_time",
               "idle_gpus", "longest_waits")  # fmt: skip


@shows("version", "cluster", "directories", *(Key(name, optional=True) for name in _OF_RECORDS))
@dataclass(frozen=True)
class Told:
    """What jobs used over time: seconds, and parts of 1; what is unknown is null.

    If Slurm keeps no records of jobs, all but the first three are left out.
    """

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # the cluster's name
    directories: Directories | None  # with `--homes`; null without
    since: str | None = None  # begin of the time, as the controller writes it
    until: str | None = None  # its end
    capacity: Capacity | None = None  # what the cluster had
    tracks_gpus: bool | None = None  # whether Slurm's records count GPUs
    tracks_gpu_use: bool | None = None  # whether they tell how busy GPUs were
    by: tuple[str, ...] | None = None  # what the rows are: some of `user`, `account`, `partition` and `gpu`
    rows: tuple[Annotated[dict[str, Any], RowKeys, Shares], ...] | None = None  # the table
    total: Shares | None = None  # of all rows
    over_time: tuple[Point, ...] | None = None  # for each day, or for each hour up to three days
    idle_gpus: tuple[IdleGpus, ...] | None = None  # jobs that hold GPUs idle, 50 at most
    longest_waits: tuple[Wait, ...] | None = None  # 50 at most


@dataclass(frozen=True)
class UsageOptions:
    """What the user asks for."""

    since: str = asking.SINCE  # where the window begins, as in `asking.moment`
    until: str = ""  # where it ends; empty for now
    by: tuple[str, ...] = ("user",)  # some of `KEYS`
    csv: str = ""  # path for the table as CSV, `-` for standard output, empty for none
    idle_minutes: int = asking.IDLE_MINUTES  # from which age on a job can hold its GPUs idle
    homes: bool = False

    def check(self, json_path: str) -> None:
        """Refuse, by InputError, unknown keys, files that cannot be written, and standard output for two outputs."""
        unknown = [key for key in self.by if key not in KEYS]
        if unknown or not self.by:
            raise InputError(f"--by {','.join(self.by)}: give some of {','.join(KEYS)}.")
        if self.csv == "-" == json_path:
            raise InputError("--json - and --csv -: only one of them can go to standard output.")
        if self.csv not in ("", "-"):
            atomic_file.require_writable(Path(self.csv), "--csv")
        asking.moment(self.since, "--since")
        asking.moment(self.until, "--until")


def show(cluster: str, options: UsageOptions, output: session.Output) -> int:
    """Print what jobs used; 1 if Slurm keeps no records, and directories were measured alone.

    Raises InputError for options; HostError if no controller or slurmdbd answers, or nothing is kept.
    """
    options.check(output.json)
    known = loading.load_named(cluster)
    run = session.start(known, "", output, RunOptions("usage"))
    with session.ending(run, tells=False):
        usage = asking.ask(known.cluster, run.transport, options.since, options.until, options.idle_minutes)
        found = ask_directories(known.cluster, run.transport) if options.homes else None
    if usage is None and found is None:
        raise HostFailed(known.cluster.controller, NO_ACCOUNTING)
    output.write_json(output_of(known.cluster.name, usage, options.by, found))
    write_csv(options.csv, as_csv(usage, options.by) if usage else "")
    if "-" not in (output.json, options.csv):
        write(usage, options.by, sys.stdout, found)
    return 0 if usage else 1


def write_csv(path: str, text: str) -> None:
    """Write the table to a file, to standard output for `-`, or nowhere for an empty path."""
    if path == "-":
        sys.stdout.write(text)
    elif path:
        atomic_file.write(Path(path), text, through_link=True)


def output_of(cluster: str, usage: Usage | None, by: Sequence[str], found: Directories | None) -> Told:
    """The figures for JSON; without records of Slurm, the directories alone."""
    if usage is None:
        return Told(cluster, found)
    return Told(
        cluster,
        found,
        since=usage.since_text,
        until=usage.until_text,
        capacity=Capacity(usage.capacity.get("cpu", 0), usage.capacity.get("gres/gpu", 0)),
        tracks_gpus=usage.tracks_gpus,
        tracks_gpu_use=usage.total.gpu_seen > 0,
        by=tuple(by),
        rows=tuple({**dict(zip(by, row.key, strict=True)), **as_json(usage.shares(row.sums))} for row in usage.by(by)),
        total=usage.shares(usage.total),
        over_time=usage.points,
        idle_gpus=usage.idle,
        longest_waits=usage.waits,
    )


def as_csv(usage: Usage, by: Sequence[str]) -> str:
    """The table as CSV with a header, in the units of JSON; empty cells for what is unknown."""
    out = io.StringIO()
    header = (*by, *(key.name for key in keys_of(Shares)))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in usage.by(by):
        shares = as_json(usage.shares(row.sums))
        writer.writerow([*row.key, *("" if one is None else one for one in shares.values())])
    return out.getvalue()


def write(usage: Usage | None, by: Sequence[str], out: TextIO, found: Directories | None = None) -> None:
    """Write the tables."""
    paint = Paint(out)
    lines = jobs_text(usage, by, paint) if usage else [paint(NO_ACCOUNTING, YELLOW)]
    if found is not None:
        lines += ["", *directory_table(found, paint)]
    terminal.write("\n".join(lines), out)


def jobs_text(usage: Usage, by: Sequence[str], paint: Paint) -> list[str]:
    """The lines about jobs."""
    lines = [paint(f"{usage.cluster}, {plain(usage.since_text)} to {plain(usage.until_text)}", BOLD)]
    rows = usage.by(by)
    if not rows:
        return [*lines, "No job ran or waited."]
    lines += ["", *main_table(usage, by, rows, paint), *idle_table(usage, paint), *waits_table(usage, paint)]
    return [*lines, "", paint(SOURCE, DIM)]


def plain(when: str) -> str:
    """A time for people: `2026-11-01 00:00 +0100`."""
    return f"{when[:10]} {when[11:16]} {when[19:]}"


def main_table(usage: Usage, by: Sequence[str], rows: Sequence[Row], paint: Paint) -> list[str]:
    """The table by keys, with its sum, and what it cannot tell."""
    has_gpus = usage.tracks_gpus or usage.total.gpu_seconds > 0
    gpus = ("GPU HOURS", "OF GPUS", "GPU BUSY") if has_gpus else ()
    header = (
        *(key.upper() for key in by),
        "JOBS",
        "CPU HOURS",
        "OF CPUS",
        *gpus,
        "CPU USED",
        "MEMORY USED",
        "MEAN WAIT",
    )
    total = Row(("all", *("" for _ in by[1:])), usage.total)
    cells = [cells_of(usage, row, has_gpus=has_gpus) for row in (*rows[:MOST_ROWS], total)]
    lines = colour_table(header, cells, paint, [*[""] * (len(cells) - 1), BOLD])
    if len(rows) > MOST_ROWS:
        lines.append(f"… and {len(rows) - MOST_ROWS} more rows; --json and --csv have them all.")
    return lines if has_gpus else [*lines, "", NO_GPUS]


def cells_of(usage: Usage, row: Row, *, has_gpus: bool) -> tuple[str, ...]:
    """A row's cells."""
    sums = row.sums
    gpus = (hours(sums.gpu_seconds), percent(usage.gpu_share(sums)), percent(sums.gpu_busy, "≤ "))
    wait = sums.mean_wait
    return (
        *(value or "-" for value in row.key),
        str(sums.jobs),
        hours(sums.cpu_seconds),
        percent(usage.cpu_share(sums)),
        *(gpus if has_gpus else ()),
        percent(sums.cpu_efficiency),
        percent(sums.memory_efficiency),
        "-" if wait is None else clock(round(wait)),
    )


def hours(seconds: int) -> str:
    """Seconds as hours: `1,234.50`."""
    return f"{seconds / 3600:,.2f}"


def percent(part: float | None, prefix: str = "") -> str:
    """A part as `12.3 %`; `-` if it is unknown."""
    return "-" if part is None else f"{prefix}{part * 100:.1f} %"


def idle_table(usage: Usage, paint: Paint) -> list[str]:
    """The jobs that held GPUs idle, or why that is unknown."""
    if not usage.total.gpu_seconds:
        return []
    note = [] if usage.total.gpu_seen else [NO_GPU_USE]
    lines = ["", paint("Jobs that held GPUs idle", BOLD)]
    if not usage.idle:
        return [*lines, "None that Slurm can tell.", *note]
    header = ("JOB", "USER", "ACCOUNT", "PARTITION", "GPUS", "GPU HOURS", "STATE", "WHY")
    rows = [idle_cells(one) for one in usage.idle[:MOST_LISTED]]
    colours = [YELLOW if one.running else "" for one in usage.idle[:MOST_LISTED]]
    return [*lines, *colour_table(header, rows, paint, colours), *rest(len(usage.idle)), *note]


def idle_cells(one: IdleGpus) -> tuple[str, ...]:
    """The cells of a job that held GPUs idle."""
    state = "running" if one.running else "ended"
    who = (one.job, one.user, one.account, one.partition, str(one.gpus))
    return (*who, hours(one.gpu_seconds), state, EVIDENCE[one.is_certain])


def waits_table(usage: Usage, paint: Paint) -> list[str]:
    """The jobs that waited longest."""
    waits = [one for one in usage.waits if one.seconds >= LEAST_WAIT]
    lines = ["", paint("Largest waits", BOLD)]
    if not waits:
        return [*lines, "No job waited for a minute."]
    header = ("JOB", "USER", "ACCOUNT", "PARTITION", "GPUS", "WAITED", "STATE")
    return [*lines, *colour_table(header, [wait_cells(one) for one in waits[:MOST_LISTED]], paint), *rest(len(waits))]


def wait_cells(one: Wait) -> tuple[str, ...]:
    """The cells of a job that waited."""
    who = (one.job, one.user, one.account, one.partition, str(one.gpus or "-"))
    return (*who, clock(one.seconds), "started" if one.started else "waits still")


def rest(count: int) -> list[str]:
    """The line about jobs that are not listed."""
    return [f"… and {count - MOST_LISTED} more; --json has them."] if count > MOST_LISTED else []
