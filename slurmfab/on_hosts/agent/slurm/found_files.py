"""Slurm's files on this host, as somebody made them by hand; nothing is changed, and no password is given away.

Read are slurm.conf with what it includes, the other files of its directory that Slurm knows, and the programs there
that it names. A file that only root may read is told, and stays here, unless root alone decides where its name leads.
"""

from __future__ import annotations

import glob
import os
import re
import stat
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from slurmfab.on_hosts.agent.accounting.sacctmgr import Sacctmgr
from slurmfab.on_hosts.agent.core import safe_paths
from slurmfab.on_hosts.agent.core.host_paths import PROGRAMS
from slurmfab.on_hosts.agent.core.included_files import whole
from slurmfab.on_hosts.agent.core.reading import all_may_read
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.facts.facts import read_accounts
from slurmfab.on_hosts.agent.logs.secret_detectors import SLURM_PASSWORD
from slurmfab.on_hosts.agent.slurm import daemon_places

CONFS = (
    "gres.conf", "cgroup.conf", "topology.conf", "topology.yaml", "job_container.conf", "namespace.yaml",
    "acct_gather.conf", "plugstack.conf", "slurmdbd.conf", "helpers.conf", "oci.conf", "mpi.conf", "burst_buffer.conf",
    "knl_cray.conf", "knl_generic.conf", "resources.yaml", "tls.conf",
)  # fmt: skip
"""Names of Slurm's files beside slurm.conf, besides those of cgroup.conf's kind that no version reads any more."""

SCRIPTS = ("job_submit.lua", "cli_filter.lua", "scrun.lua", "burst_buffer.lua", "jobcomp.lua")
"""Names of the scripts of Slurm's plugins beside slurm.conf."""

PROGRAM_KEYS = (
    "prolog", "epilog", "prologslurmctld", "epilogslurmctld", "taskprolog", "taskepilog", "srunprolog", "srunepilog",
    "healthcheckprogram", "rebootprogram", "resumeprogram", "suspendprogram", "resumefailprogram",
    "unkillablestepprogram", "slurmctldprimaryonprog", "slurmctldprimaryoffprog", "mailprog",
)  # fmt: skip
"""Keys of slurm.conf, in lower case, whose value is a program."""

SLURMDBD = "accounting_storage/slurmdbd"
SLURMDBD_CONF = "slurmdbd.conf"
PLUGSTACK_CONF = "plugstack.conf"
MASKED = ("slurm.conf", SLURMDBD_CONF)
"""Files whose other lines are needed even if one has a password; a file that is carried as it is stays here then."""

RUNNER = re.compile(re.escape(PROGRAMS) + "/(prolog|epilog)$")
"""slurmfab's own programs, as left by its scripts (`eject`), which run those of a directory."""

HIDDEN = "(not-shown)"  # stands for a password

SETTING = re.compile(r"(?:^|[ \t])(\w+)[ \t]*=[ \t]*(?:\"([^\"]*)\"|([^\s\"#]+))")
PLUGSTACK_INCLUDE = re.compile(r"(?m)^[ \t]*include[ \t]+([^\s#]+)")

MOST_BYTES = 4 << 20
"""The size of the largest file that is read; a slurm.conf with a line for each of 10,000 nodes has 2 MB."""

MOST_TOTAL = 24 << 20
OTHERS_WRITE = safe_paths.OTHERS_WRITE
MOST_FILES = 300

MISSING = "there is no such file"
PRIVATE = "only root may read it, so it stays on the host"
ELSEWHERE = "it is not in Slurm's directory, so it stays where it is"


def read(request: Mapping[str, Any], context: Context) -> Dict[str, Any]:
    """Slurm's files of this host, and where it is.

    `request`: `with_federation`: whether to ask slurmdbd which federation the cluster is in. Returns `places`: as
    `daemon_places.Places` has them. `slurm_conf`: its text with all that it includes. `files` and `drop_ins`: path,
    text, permission bits, and where a link leads, of each file, slurm.conf first. `left`: path and reason of each file
    that stays here, or is missing though a file names it. `hidden`: path and key of each password that was left out.
    `federation`: its name, empty for none, or if slurmdbd does not answer. `mark`: what only one file of a shared file
    system has, of slurm.conf.
    """
    account = read_accounts("" if context.root == "/" else context.root, ("slurm",)).get("slurm", {})
    places = daemon_places.find(context, int(account.get("uid", 0)))
    found = Reader(context, int(account.get("uid", -1)), int(account.get("gid", -1)))
    units = Reader(context, found.uid, found.gid)
    slurm_conf = read_conf(found, places.conf) if places.conf else ""
    if places.slurmdbd_conf:
        found.add(places.slurmdbd_conf)
    for path in places.drop_ins:
        units.add(path)
    return {
        "places": places._asdict(),
        "slurm_conf": slurm_conf,
        "files": found.files,
        "drop_ins": units.files,
        "left": sorted({**units.left, **found.left}.items()),
        "hidden": sorted({*found.hidden, *units.hidden}),
        "mark": mark(context.path(places.conf)) if places.conf else "",
        "federation": federation(context) if request.get("with_federation") and SLURMDBD in slurm_conf else "",
    }


def mark(path: str) -> str:
    """A file's number and time of change in nanoseconds, by which hosts know one file; empty if unseen."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return "%d %d" % (status.st_ino, status.st_ctime_ns)


def federation(context: Context) -> str:
    """The federation that slurmdbd knows; empty for none, or if it does not answer."""
    try:
        with Sacctmgr(context, "") as sacctmgr:
            rows = sacctmgr.rows(("federation",), "federation")
    except ResourceFailed:
        return ""
    return next((row[0] for row in rows if row[0]), "")


class Reader:
    """Reads files, up to a number and a size, without passwords.

    Args:
        context: where the file system begins.
        uid: UID of the slurm user, -1 for none; `gid` likewise its GID.

    Attributes:
        files: path, text, permission bits and the target of a link, of each file that was read.
        left: reason by path, of each file that was not.
        hidden: path and key of each password that was left out.
        is_roots_word: whether only root can have written what was read so far, and so which files are read.
    """

    def __init__(self, context: Context, uid: int, gid: int) -> None:
        self.context = context
        self.uid = uid
        self.gid = gid
        self.files: List[Tuple[str, str, int, str]] = []
        self.left: Dict[str, str] = {}
        self.hidden: List[Tuple[str, str]] = []
        self.is_roots_word = True
        self.total = 0

    def add(self, path: str, is_program: bool = False, is_named: bool = False) -> str:
        """Read a file once, and return its text; empty if it stays here or there is none.

        `path`: absolute path on the host. `is_program`: whether it is a program or a script, which goes as it is or not
        at all. `is_named`: whether another file names it, so that it should be there.
        """
        known = {one[0]: one[1] for one in self.files}
        if path in known or path in self.left:
            return known.get(path, "")
        try:
            text, mode = self.text_of(path, is_program)
        except FileNotFoundError:
            self.left.update({path: MISSING} if is_named else {})
            return ""
        except (ResourceFailed, OSError, ValueError) as error:
            self.left[path] = " ".join(str(error).split())
            return ""
        real = os.path.realpath(self.context.path(path))
        link = "" if real == self.context.path(path) else real[len(self.context.path("/")) - 1 :]
        self.files.append((path, text, mode, link))
        return text

    def text_of(self, path: str, is_program: bool) -> Tuple[str, int]:
        """A file's text without passwords, and mode; ValueError, with the reason, if it stays; or OSError."""
        content, status = self.content(path, is_program)
        name, mode = os.path.basename(path), stat.S_IMODE(status.st_mode)
        if is_program:
            if b"\0" in content:
                raise ValueError("it is not a script, so it stays on the host")
            return content.decode(), mode
        keys: List[str] = []

        def hide(found: "re.Match[str]") -> str:
            if is_socket(self.context, found[3]):
                return found[0]
            keys.append(found[1])
            return found[1] + found[2] + HIDDEN

        text = SLURM_PASSWORD.sub(hide, content.decode(errors="replace"))
        if keys and name not in MASKED and not self.is_included(path):
            raise ValueError("it has a password (%s), so it stays on the host" % ", ".join(keys))
        self.hidden += [(path, key) for key in keys]
        return text, mode

    def is_included(self, path: str) -> bool:
        """Whether a file is part of slurm.conf, by an Include."""
        return os.path.basename(path) not in (*CONFS, *SCRIPTS)

    def content(self, path: str, is_program: bool) -> Tuple[bytes, os.stat_result]:
        """The content and the status of a file that may leave the host.

        Raises:
            ValueError: it may not, or it is too large.
            OSError, ResourceFailed: it cannot be read, or another user could lead root to another file.
        """
        descriptor, is_roots_alone = self.open(path)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not self.may_leave(descriptor, is_program, is_roots_alone):
                raise ValueError(PRIVATE)
            self.is_roots_word &= is_roots_alone and not status.st_uid and not status.st_mode & OTHERS_WRITE
            if status.st_size > MOST_BYTES:
                raise ValueError("it has %d bytes, which is more than is read" % status.st_size)
            if len(self.files) >= MOST_FILES or self.total + status.st_size > MOST_TOTAL:
                raise ValueError("there are more files than are read")
            content = file.read(MOST_BYTES)
        self.total += len(content)
        return content, status

    def open(self, path: str) -> Tuple[int, bool]:
        """Open a regular file, following the links of root alone.

        Returns the descriptor, and whether nobody but root can put another file there. Raises OSError, ResourceFailed
        if there is none, or another user could lead root to another file.
        """
        place = self.context.path(path)
        for _ in range(safe_paths.MAX_LINKS):
            folder, name = safe_paths.open_parent(place)
            with folder:
                status = folder.find(name)
                if status is None:
                    raise FileNotFoundError(place)
                if stat.S_ISLNK(status.st_mode):
                    target = folder.link(name)
                    base = self.context.path("/") if target.startswith("/") else os.path.dirname(place)
                    place = os.path.join(base, target.lstrip("/"))
                    continue
                descriptor = folder.open(name)
                if descriptor is None:
                    raise FileNotFoundError(place)
                return descriptor, not folder.others
        raise ResourceFailed("%s has more than %d links on its way" % (path, safe_paths.MAX_LINKS))

    def may_leave(self, descriptor: int, is_program: bool, is_roots_alone: bool) -> bool:
        """Whether a file may leave the host: it holds no secret of root's, and root alone decided that it is read.

        Args:
            is_program: whether it is a program, which later everybody may read on all hosts.
            is_roots_alone: whether nobody but root can put another file in its place.
        """
        status = os.fstat(descriptor)
        mode = status.st_mode
        is_everybodys = all_may_read(descriptor, self.context.path("/").rstrip("/") or "/")
        if is_everybodys or is_program:
            return is_everybodys
        of_user = status.st_uid == self.uid and mode & stat.S_IRUSR
        of_group = status.st_gid == self.gid and mode & stat.S_IRGRP
        return bool(of_user or of_group or (is_roots_alone and self.is_roots_word))


def read_conf(found: Reader, conf: str) -> str:
    """Read a slurm.conf, and what belongs to it, and return its text with all that it includes."""
    directory = os.path.dirname(conf)
    main = found.add(conf, is_named=True)
    # `Reader` judges each file itself, included or not.
    text = whole(conf, main.encode(), lambda path: included(found, path), lambda *_: True).decode(errors="replace")
    for name in CONFS:
        found.add("%s/%s" % (directory, name))
    for name in SCRIPTS:
        found.add("%s/%s" % (directory, name), is_program=True)
    settings = list(settings_in(text))
    stack = next((value for key, value in settings if key == "plugstackconfig"), "")
    add_plugstack(found, os.path.join(directory, stack or PLUGSTACK_CONF))
    for key, value in settings:
        if key in PROGRAM_KEYS:
            add_programs(found, directory, value)
    return text


def included(found: Reader, path: str) -> bytes:
    """The text of a file that slurm.conf includes, without passwords."""
    return found.add(os.path.normpath(path), is_named=True).encode()


def settings_in(text: str) -> Iterator[Tuple[str, str]]:
    """Keys in lower case and values of a slurm.conf."""
    for line in text.replace("\\\n", "").split("\n"):
        for key, quoted, plain in SETTING.findall(re.sub(r"(?<!\\)#.*", "", line)):
            yield key.lower(), quoted or plain


def add_plugstack(found: Reader, path: str) -> None:
    """Read plugstack.conf, and the files that it includes, whose names may be patterns (spank(7))."""
    text = found.add(path)
    for pattern in PLUGSTACK_INCLUDE.findall(text):
        place = found.context.path(os.path.join(os.path.dirname(path), pattern))
        for one in sorted(glob.glob(place)):
            found.add(host_path(found.context, one))


def add_programs(found: Reader, directory: str, value: str) -> None:
    """Read programs of a value (paths, names, patterns, commas) in Slurm's directory, look for others."""
    for word in filter(None, value.split(",")):
        path = os.path.normpath(os.path.join(directory, word.split()[0] if word.split() else word))
        matching = sorted(glob.glob(found.context.path(path))) if glob.has_magic(path) else [found.context.path(path)]
        for one in matching:
            own = host_path(found.context, one)
            runner = RUNNER.match(own)
            if own.startswith(directory + "/"):
                found.add(own, is_program=True, is_named=True)
            elif runner and os.path.exists(one):
                for script in sorted(glob.glob(found.context.path("%s/%s.d/*" % (directory, runner[1])))):
                    found.add(host_path(found.context, script), is_program=True)
            else:
                found.left[own] = ELSEWHERE if os.path.exists(one) else MISSING


def host_path(context: Context, path: str) -> str:
    """A path below the root of a context as the host has it."""
    return path[len(context.path("/")) - 1 :]


def is_socket(context: Context, value: str) -> Optional[bool]:
    """Whether the value of a password's key is the path of a socket, as AccountingStoragePass has munge's."""
    path = value.strip('"')
    try:
        return path.startswith("/") and stat.S_ISSOCK(os.stat(context.path(path)).st_mode)
    except OSError:
        return False
