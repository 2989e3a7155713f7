"""Files of the site's, such as kernel settings, that something must read: at boot, and when they are newer."""

from __future__ import annotations

import os
from typing import ClassVar, Dict, List, Optional, Tuple

from slurmfab.on_hosts.agent.core import host_records
from slurmfab.on_hosts.agent.core.resource import Context, LeftAsItWas, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.services.process import process_start

READERS: Tuple[Tuple[str, str, Tuple[str, ...]], ...] = (
    ("/etc/sysctl.d/", ".conf", ("sysctl", "--load=%s")),
    ("/etc/tmpfiles.d/", ".conf", ("systemd-tmpfiles", "--create", "%s")),
    ("/etc/modules-load.d/", ".conf", ("systemctl", "restart", "systemd-modules-load.service")),
    ("/etc/udev/rules.d/", ".rules", ("udevadm", "control", "--reload")),
)
"""Beginning and end of the path of such a file, and the program that reads it, with the path in the place of `%s`.

udevd follows its rules with the next event of a device; `udevadm trigger` would make events for all devices.
"""

RECORD = "/run/slurmfab-in-effect.json"  # which files were read since the boot; after the next one, all were

YES, NO, COMING, UNTIL_BOOT = "yes", "no", "no, before its change", "until the next boot"


def reader(path: str) -> Optional[List[str]]:
    """The program that reads a file, with its arguments; `None` if none has to.

    >>> reader("/etc/sysctl.d/90-hpc.conf"), reader("/etc/motd")
    (['sysctl', '--load=/etc/sysctl.d/90-hpc.conf'], None)
    """
    for start, end, words in READERS:
        if path.startswith(start) and path.endswith(end):
            return [word.replace("%s", path) for word in words]
    return None


class InEffect(Resource):
    """Files whose settings are in effect, such as kernel settings; those of a removed file stay until the next boot."""

    kind: ClassVar[str] = "in-effect"
    only_name: ClassVar[str] = "files"
    paths: Tuple[str, ...]  # the files; each has a program that reads it

    def wanted(self, context: Context) -> State:
        """Each file in effect, and none that is no longer wanted."""
        return {**dict.fromkeys(read_record(context)), **dict.fromkeys(self.paths, YES)}

    def actual(self, context: Context) -> State:
        """Which files are in effect, and former ones, which are until the next boot."""
        record = read_record(context)
        state = dict.fromkeys(record, UNTIL_BOOT)
        for path in self.paths:
            is_coming = context.dry_run and path in context.touched
            state[path] = COMING if is_coming else YES if is_read(context, path, record) else NO
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Have the files read that were written since; LeftAsItWas if a program does not take its file, and why."""
        record, failures = read_record(context), []
        for path in self.paths:
            if path in differing:
                try:
                    context.must(reader(path) or [])
                    record[path] = version(context, path)
                except ResourceFailed as error:
                    failures.append("%s is not in effect: %s" % (path, error))
        former = [path for path in record if path not in self.paths]
        for path in former:
            del record[path]
        host_records.write(context, RECORD, record)
        told = ["%s is gone, and what it has set stays until the next boot" % path for path in former]
        if failures:
            raise LeftAsItWas(". ".join(failures + told))
        context.remark = ". ".join(told)


def is_read(context: Context, path: str, record: Dict[str, str]) -> bool:
    """Whether a file has been read as it is now: at the boot, or since. `record`: from `read_record`."""
    if path in record:
        return record[path] == version(context, path)
    try:
        return os.stat(context.path(path)).st_mtime < process_start(1)
    except OSError:
        return False


def version(context: Context, path: str) -> str:
    """What tells a file from an earlier one of the same path; empty for a missing one."""
    try:
        status = os.stat(context.path(path))
    except OSError:
        return ""
    return "%d %d %d" % (status.st_mtime_ns, status.st_ino, status.st_size)


def read_record(context: Context) -> Dict[str, str]:
    """The files that were read since the boot, each with its version then."""
    return {path: text for path, text in host_records.read(context, RECORD).items() if isinstance(text, str)}
