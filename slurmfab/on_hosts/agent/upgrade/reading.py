"""What a host has of Slurm, as an upgrade needs to know it: versions, plugins, database and room; changes nothing.

A daemon may run an older program than the one on the disk, when a package was replaced under it. Its version is in the
program itself, which /proc still has.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import re
import time
from typing import Any, Container, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Sequence, Tuple

from slurmfab.on_hosts.agent.backup.database import CLIENT_ENVIRONMENT, find_client, login
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.reading import names, read_bytes
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.database.mariadb import explain_error, quoted
from slurmfab.on_hosts.agent.facts.slurm_use import processes
from slurmfab.on_hosts.agent.files.free_space import nearest
from slurmfab.on_hosts.agent.packages import dpkg_status, unfinished
from slurmfab.on_hosts.agent.slurm.spank_plugin import PLUGSTACK, lines
from slurmfab.on_hosts.agent.slurm.state_versions import HEADER_BYTES, written_by
from slurmfab.on_hosts.agent.upgrade import slurm_users
from slurmfab.on_hosts.agent.upgrade.slurm_users import OWN, SlurmUser

QUERY = (
    "select table_name, coalesce(table_rows, 0), coalesce(data_length + index_length, 0) "
    "from information_schema.tables where table_schema = %s;"
)
BIG = ("_job_table", "_step_table", "_job_env_table", "_job_script_table", "_event_table", "_suspend_table",
       "_assoc_usage_hour_table", "_wckey_usage_hour_table")  # fmt: skip
"""How the names of tables end that grow with the jobs of a cluster; its name comes first."""

PLACE = "select @@datadir;"
SECONDS = 120


def read_database_size(stack: contextlib.ExitStack, context: Context, name: str, settings: str) -> Dict[str, Any]:
    """Ask the server.

    Args:
        settings: path of the slurmdbd.conf with the login for an external server; empty for this host's server.

    Returns:
        `rows`: by table, of those that grow with the jobs; `bytes`: of all tables with their indexes; `place`: the
        server's data directory, empty for an external server.

    Raises:
        ResourceFailed: there is no client, or the server does not answer or refuses.
    """
    options, descriptors = login(stack, context, settings)
    rows = [line.split("\t") for line in ask(options, descriptors, QUERY % quoted(name)).splitlines()]
    found = {row[0]: (int(row[1]), int(row[2])) for row in rows if len(row) == 3}  # noqa: PLR2004
    place = "" if settings else ask(options, descriptors, PLACE).strip()
    return {
        "rows": {table: count for table, (count, _) in sorted(found.items()) if table.endswith(BIG)},
        "bytes": sum(size for _, size in found.values()),
        "place": place,
    }


def ask(options: Any, descriptors: Any, statements: str) -> str:
    """A server's answer as lines with tabs; ResourceFailed if there is no client, or it is silent or refuses."""
    import subprocess  # few requests need it

    argv = [find_client("mariadb", "mysql"), *options, "--batch", "--raw", "--skip-column-names"]
    environment: Mapping[str, str] = CLIENT_ENVIRONMENT
    try:
        done = subprocess.run(
            argv,
            input=statements.encode(),
            capture_output=True,
            timeout=SECONDS,
            env=environment,
            check=False,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceFailed("the database did not answer: %s" % error) from error
    if done.returncode != 0:
        raise ResourceFailed(explain_error(done.stderr.decode(errors="replace")))
    return done.stdout.decode(errors="replace")


DAEMONS = ("slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd")
VERSION = re.compile(rb"\0(\d\d\.\d\d\.\d{1,2})(?:[-~][\w.~-]{1,30})?\0")
"""A daemon's own version in its program, which has it once."""

INFO = "/var/lib/dpkg/info"
MOST_PLUGINS = 1000
LOCK_SECONDS = 120.0
"""How long to wait for a run of dpkg, as of an upgrade that was cut off and whose last step goes on here."""

JOB_LIST = "job_state"
JOB_FIELDS = ("JobArrayID", "UserName", "State", "BatchFlag", "NodeList")
"""Fields of a job, as named by squeue(1), --Format; BatchFlag is 0 where srun or salloc waits for the job."""


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """What this host has of Slurm.

    `request`: `manager`: of packages. `names`: of Slurm's packages; those that are built from the same source count,
    too. `programs`: directory of the daemons. `plugins`: patterns of the directories of plugins. `state`:
    StateSaveLocation, missing on a host that is no controller. `paths`: directories whose free space is wanted.
    `database`: its name, missing where this host has no slurmdbd; `settings`: the slurmdbd.conf with the login, missing
    for root's own. `jobs`: whether slurmctld is asked for its jobs. Returns `packages`: versions of Slurm's packages by
    name. `held`: those that apt may not change. `programs` and `running`: versions of the daemons by name, on the disk
    and as they run. `plugins`: names of the plugins, such as `job_submit_lua`. `foreign`: those that no package of
    Slurm's has. `spank`: plugins that plugstack.conf loads, each with its file, whether it is required, and whether a
    package of Slurm's has it. `state`: the series that wrote slurmctld's state. `users`: PID, unit, program and user of
    each process that uses Slurm's files, and whether these were replaced since. `digest`: of all packages, equal on
    hosts for which apt does the same. `free`: free bytes by path. `rows` and `bytes`: of the database's tables, and of
    it; `trouble`: why it could not be asked. `jobs`: id, user, state, `1` for a batch job, and nodes of each;
    `no_jobs`: why it has none.
    """
    found, files, whole = installed(request, context)
    there = dict(plugins(context, request["plugins"]))
    return {
        "packages": {name: version for name, (version, _) in found.items()},
        "held": sorted(name for name, (_, is_held) in found.items() if is_held),
        "programs": dict(programs(context, request["programs"])),
        **processes_of(context, files),
        "digest": whole,
        "plugins": sorted(there),
        "foreign": sorted(name for name, path in there.items() if path not in files),
        "spank": spank(context, files, sorted(os.path.dirname(path) for path in there.values())[:1]),
        "state": state(context, request["state"]) if request.get("state") else "",
        "free": {path: free(context, path) for path in request.get("paths", ())},
        **database(context, request),
        **(jobs(context) if request.get("jobs") else {}),
    }


def installed(request: Mapping[str, Any], context: Context) -> Tuple[Dict[str, Tuple[str, bool]], FrozenSet[str], str]:
    """Slurm's packages, as `packages` has them, their files, and a digest of all packages."""
    if request.get("manager") == "dnf":
        from slurmfab.on_hosts.agent.dnf import slurm_versions

        own, files, whole = slurm_versions.read(context, request["names"])
        return {name: (version, False) for name, version in own.items()}, files, whole
    wait_for_dpkg(context)
    found = packages(dpkg_status.read(context.root), request["names"])
    return found, frozenset(files_of(context, found)), digest(dpkg_status.read(context.root))


def wait_for_dpkg(context: Context) -> None:
    """Wait until nothing holds dpkg's lock: meanwhile packages may be of the old version, the new one, or neither."""
    deadline = time.monotonic() + LOCK_SECONDS
    while unfinished.is_locked(context.root) and time.monotonic() < deadline:
        time.sleep(0.2)


def packages(status: bytes, wanted: Iterable[str]) -> Dict[str, Tuple[str, bool]]:
    """Version, and whether it is held, of each installed package of Slurm's, by name.

    A package whose installation was interrupted counts with the version that was whole before it (`Config-Version` in
    dpkg's status file), so that what is left to do is seen. `wanted`: names of Slurm's packages; libraries that are
    built with them have names with their version.
    """
    found = {}
    for paragraph in (b"\n" + one + b"\n" for one in status.split(b"\n\n")):
        state = dpkg_status.field(paragraph, "Status").split()
        name = dpkg_status.field(paragraph, "Package")
        source = dpkg_status.field(paragraph, "Source").partition(" ")[0] or name
        if state[2:] == ["installed"] or (state and state[-1] in dpkg_status.UNFINISHED):
            before = "" if state[2:] == ["installed"] else dpkg_status.field(paragraph, "Config-Version")
            found[name] = (source, before or dpkg_status.field(paragraph, "Version"), state[0] == "hold")
    sources = {found[name][0] for name in wanted if name in found}
    return {name: (version, is_held) for name, (source, version, is_held) in sorted(found.items()) if source in sources}


def digest(status: bytes) -> str:
    """A digest of the packages in dpkg's status file, with their versions and states."""
    lines = sorted(re.findall(rb"^(?:Package: .*\nStatus: .*|Version: .*)$", status, re.M))
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def files_of(context: Context, wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files of installed packages, as dpkg lists them."""
    for name in names(context.path(INFO)):
        if name.endswith(".list") and name[: -len(".list")].partition(":")[0] in wanted:
            yield from read_bytes(context.path("%s/%s" % (INFO, name))).decode(errors="replace").split("\n")


def programs(context: Context, directory: str) -> Iterator[Tuple[str, str]]:
    """Yield the daemons that are installed, each with the version of its program."""
    for name in DAEMONS:
        version = version_in(context.path("%s/%s" % (directory, name)))
        if version:
            yield name, version


def processes_of(context: Context, files: Container[str]) -> Dict[str, Any]:
    """`running` and `users` of `read`; nothing but on a real host."""
    users = slurm_users.read(context, files) if context.root == "/" else []
    others = [one for one in users if one.unit not in OWN]
    told = [[str(one.pid), one.unit, one.program, one.user, one.is_old] for one in others]
    return {"running": dict(running(context, users)), "users": told}


def running(context: Context, users: Iterable[SlurmUser]) -> Iterator[Tuple[str, str]]:
    """Yield the daemons that run, each with the version of the program that runs; looked at on a real host alone.

    slurmrestd and sackd run as users of their own, so that their units tell them.
    """
    if context.root != "/":
        return
    import pwd

    try:
        uid = pwd.getpwnam("slurm").pw_uid
    except KeyError:
        uid = 0
    others = ((str(one.pid), one.program.partition("-wlm")[0]) for one in users if one.unit)
    for pid, name in (*others, *processes(uid)):
        version = version_in("/proc/%s/exe" % pid) if name in DAEMONS else ""
        if version:
            yield name, version


def version_in(path: str) -> str:
    """The version that a daemon's program has in itself; empty if there is none, or no such file."""
    try:
        with open(path, "rb") as file:
            content = file.read(64 << 20)
    except OSError:
        return ""
    found = {one.group(1) for one in VERSION.finditer(content)}
    return found.pop().decode() if len(found) == 1 else ""


def plugins(context: Context, patterns: Iterable[str]) -> Iterator[Tuple[str, str]]:
    """Yield name and path of the plugins on this host."""
    start = len(context.path("/")) - 1
    for place in sorted(found for pattern in patterns for found in glob.glob(context.path(pattern))):
        for name in names(place)[:MOST_PLUGINS]:
            if name.endswith(".so") and not name.startswith("lib"):
                yield name[: -len(".so")], os.path.join(place, name)[start:]


def spank(context: Context, files: Any, places: Sequence[str]) -> List[List[Any]]:
    """Path, need and package (of Slurm's or not) of plugstack.conf's plugins; relative ones are in `places`."""
    found = []
    for _, word, value in lines(context, PLUGSTACK):
        if word != "include":
            path = value if os.path.isabs(value) or not places else os.path.join(places[0], value)
            found.append([path, word == "required", path in files])
    return found[:MOST_PLUGINS]


def state(context: Context, directory: str) -> str:
    """The series of the Slurm that wrote slurmctld's state; empty if that is not known."""
    return written_by(read_bytes(context.path(os.path.join(directory, JOB_LIST)))[:HEADER_BYTES])


def free(context: Context, path: str) -> int:
    """Free bytes where a directory is, or would be made; -1 if that is not known."""
    try:
        found = os.statvfs(nearest(context.path(path)))
    except OSError:
        return -1
    return found.f_bavail * found.f_frsize


def database(context: Context, request: Mapping[str, Any]) -> Dict[str, Any]:
    """Size and rows of the accounting database, as its server estimates them; nothing where there is none here."""
    if not request.get("database"):
        return {}

    with contextlib.ExitStack() as stack:
        try:
            return read_database_size(stack, context, request["database"], request.get("settings", ""))
        except ResourceFailed as error:
            return {"trouble": str(error)}


def jobs(context: Context) -> Dict[str, Any]:
    """The jobs that have not ended, by the words of squeue; or why slurmctld could not be asked."""
    try:
        return {"jobs": commands.jobs(JOB_FIELDS).ask(context)}
    except ResourceFailed as error:
        return {"no_jobs": str(error)}
