"""Where Slurm is on this host: its daemons' programs, the slurm.conf that they use, and what extends their units."""

from __future__ import annotations

import os
import shlex
import stat
from typing import Dict, Iterator, List, Mapping, NamedTuple, Tuple

from slurmfab.on_hosts.agent.core.reading import read_bytes, read_text
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.facts.slurm_use import CONFS, after, processes
from slurmfab.on_hosts.agent.services import systemctl

DAEMONS = ("slurmctld", "slurmd", "slurmdbd")  # Slurm's daemons, those first whose slurm.conf says most

PREFIXES = ("/usr", "/usr/local", "/opt/slurm", "/usr/local/slurm", "/opt/slurm/current")
"""Where Slurm's programs are usually installed, below `sbin`."""

DEFAULTS = ("/etc/default/%s", "/etc/sysconfig/%s")
FETCHED = CONFS[1]  # the slurm.conf that slurmd has fetched from slurmctld (configless)

UNIT_PROPERTIES = ("LoadState", "ExecStart", "Environment", "FragmentPath", "DropInPaths")
VERSION_SECONDS = 10.0
OTHERS_WRITE = 0o022


class Places(NamedTuple):
    """Where Slurm is on a host."""

    conf: str = ""  # path of the slurm.conf that its daemons use; empty for none
    program: str = ""  # path of the first of its daemons, as its unit or its process names it; empty for none
    version: str = ""  # of that program; empty if it does not tell
    configless: bool = False
    slurmdbd_conf: str = ""  # path of slurmdbd's file, if it is another than slurm.conf's directory has; empty for none
    drop_ins: Tuple[str, ...] = ()  # paths of the files that extend or replace the packages' units
    running: Tuple[str, ...] = ()  # names of the daemons that run


class Start(NamedTuple):
    """How a daemon was, or would be started."""

    program: str
    arguments: List[str]
    variables: Mapping[str, str]


def find(context: Context, slurm_uid: int) -> Places:
    """Look for Slurm: by its running daemons, their units, and the usual places.

    Args:
        context: where the file system begins; processes and units are looked at on a real host alone.
        slurm_uid: UID of the slurm user, whose processes may be daemons.
    """
    is_host = context.root == "/"
    running = dict(started(slurm_uid)) if is_host else {}
    units = unit_properties(context) if is_host else {}
    starts = {**{name: planned(context, name, units.get(name, {})) for name in DAEMONS}, **running}
    known = [*running.values(), *(starts[name] for name in DAEMONS)]
    program = next((one.program for one in known if one.program), "") or usual_program(context)
    conf, is_fetched = conf_of(context, starts, program)
    return Places(
        conf,
        program,
        version(context, program),
        is_fetched,
        slurmdbd_conf_of(context, starts["slurmdbd"]),
        tuple(dict.fromkeys(path for name in DAEMONS for path in site_units(units.get(name, {})))),
        tuple(name for name in DAEMONS if name in running),
    )


def started(slurm_uid: int) -> Iterator[Tuple[str, Start]]:
    """The running daemons by name."""
    for pid, name in processes(slurm_uid):
        if name in DAEMONS:
            arguments = read_bytes("/proc/%s/cmdline" % pid).decode(errors="replace").split("\0")
            variables = read_bytes("/proc/%s/environ" % pid).decode(errors="replace").split("\0")
            yield name, Start(os.path.realpath("/proc/%s/exe" % pid), arguments, assignments(variables))


def assignments(words: List[str]) -> Dict[str, str]:
    """Values by name of words such as `NAME=VALUE`."""
    return {name: value for name, is_set, value in (word.partition("=") for word in words) if is_set}


def unit_properties(context: Context) -> Dict[str, Dict[str, str]]:
    """Properties of the daemons' units; empty without systemd."""
    units = ["%s.service" % name for name in DAEMONS]
    try:
        shown = context.run(systemctl.show_command(units, UNIT_PROPERTIES), seconds=20).stdout.decode(errors="replace")
    except ResourceFailed:
        return {}
    return {name.partition(".")[0]: values for name, values in systemctl.parse_show(units, shown).items()}


def planned(context: Context, name: str, unit: Mapping[str, str]) -> Start:
    """How a daemon would be started, by its unit and its file in /etc/default."""
    path = unit.get("ExecStart", "").partition("path=")[2].split(" ")[0].rstrip(";")
    words = words_of(unit.get("ExecStart", "").partition("argv[]=")[2].partition(" ;")[0])
    variables = assignments(words_of(unit.get("Environment", "")))
    for place in DEFAULTS:
        variables.update(assignments(words_of(read_text(context.path(place % name)))))
    options = words_of(variables.get("%s_OPTIONS" % name.upper(), ""))
    return Start(path, [*words, *options], variables)


def words_of(text: str) -> List[str]:
    """The words of a text in the syntax of a shell, without comments; none if it has a mistake."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return []


def usual_program(context: Context) -> str:
    """The program of a daemon in one of the usual places; empty for none."""
    paths = ("%s/sbin/%s" % (prefix, name) for prefix in PREFIXES for name in DAEMONS)
    return next((path for path in paths if os.access(context.path(path), os.X_OK)), "")


def conf_of(context: Context, starts: Mapping[str, Start], program: str) -> Tuple[str, bool]:
    """The daemons' slurm.conf, and whether slurmd fetched it, by how each starts and the first's program."""
    fetches = bool(after("--conf-server", starts["slurmd"].arguments))
    if fetches and os.path.exists(context.path(FETCHED)):
        return FETCHED, True
    for name in DAEMONS[:2]:
        named = after("-f", starts[name].arguments) or starts[name].variables.get("SLURM_CONF", "")
        if named:
            return usual_path(context, named), False
    prefix = os.path.dirname(os.path.dirname(program))
    own = [prefix + "/etc/slurm.conf", prefix + "/etc/slurm/slurm.conf"] if prefix not in ("", "/", "/usr") else []
    others = ["%s/etc/%s" % (one, name) for one in PREFIXES[1:] for name in ("slurm.conf", "slurm/slurm.conf")]
    for path in dict.fromkeys([*own, CONFS[0], FETCHED, CONFS[2], *others]):
        if os.path.isfile(context.path(path)):
            return path, path == FETCHED
    return "", fetches


def usual_path(context: Context, path: str) -> str:
    """The path of a file of Slurm's below /etc/slurm, if that is a link to the directory that a daemon was given."""
    usual = os.path.join(os.path.dirname(CONFS[0]), os.path.basename(path))
    places = (os.path.realpath(os.path.dirname(context.path(one))) for one in (path, usual))
    return usual if len({*places}) == 1 else path


def slurmdbd_conf_of(context: Context, start: Start) -> str:
    """The path of slurmdbd's file, whether there is a slurm.conf beside it or not; empty for none."""
    beside = os.path.dirname(usual_path(context, start.variables.get("SLURM_CONF", CONFS[0])))
    path = after("-f", start.arguments) or "%s/slurmdbd.conf" % beside
    return path if os.path.lexists(context.path(path)) else ""


def site_units(unit: Mapping[str, str]) -> List[str]:
    """Paths of a site's files about a unit: its drop-ins, and the unit itself where it is not a package's."""
    found = [unit.get("FragmentPath", ""), *unit.get("DropInPaths", "").split()]
    return [path for path in found if path.startswith(("/etc/systemd/", "/run/systemd/system/"))]


def version(context: Context, program: str) -> str:
    """A daemon's version, such as `24.11.5`, or empty; its program is run, so only root may change it."""
    if context.root != "/" or not program or not is_roots_alone(program):
        return ""
    try:
        words = context.run([program, "-V"], seconds=VERSION_SECONDS).stdout.decode(errors="replace").split()
    except (ResourceFailed, OSError):
        return ""
    return words[1] if len(words) > 1 else ""


def is_roots_alone(path: str) -> bool:
    """Whether only root can change a file, or a directory on the way to it."""
    real = os.path.realpath(path)
    while True:
        try:
            status = os.lstat(real)
        except OSError:
            return False
        if status.st_uid != 0 or (status.st_mode & OTHERS_WRITE and not status.st_mode & stat.S_ISVTX):
            return False
        if real == "/":
            return True
        real = os.path.dirname(real)
