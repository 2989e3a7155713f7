"""A mount point with the file system that the cluster file has for it."""

from __future__ import annotations

import os
import time
from typing import ClassVar, List, Tuple

from slurmfab.on_hosts.agent.core import mounts
from slurmfab.on_hosts.agent.core.reading import names
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.mounts import in_use, mount_units
from slurmfab.on_hosts.agent.services.service import ENABLED, show

ALIKE = (("nfs", "nfs4"), ("cifs", "smb3"))  # types that the kernel shows for one another

BIND = "bind"
BY_MARK = ("UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=", "/dev/")
"""How sources begin that are shown by another name of the same device."""

WITHOUT_PACKAGE = {
    "lustre": "lustre-client-modules and lustre-client-utils of its vendor",
    "beegfs": "beegfs-client of its vendor",
    "gpfs": "the packages of its vendor",
}
"""Types whose programs no suite of Debian has, and what to install."""

HELPERS = ("/sbin/mount.%s", "/usr/sbin/mount.%s")
START_SECONDS = 30.0  # seconds that systemd may take beside the time limit of the mount itself

PAUSE_SECONDS = 2.0


class MountPoint(Resource):
    """A mounted file system, or one that is mounted when it is first used; its unit is enabled.

    Its unit's file is there before. Nothing here touches the file system, whose server may be silent.
    """

    kind: ClassVar[str] = "mount"
    named_by: ClassVar[str] = "path"
    deadline: ClassVar[float] = 420.0
    path: str
    unit: str  # the unit that is enabled and started: a mount or an automount unit
    source: str  # what is mounted
    type: str  # as in the cluster file; `bind` for another directory
    seconds: float
    patience: float = 0.0  # seconds during which a failed attempt is repeated, as while another host sets its server up
    # The automount unit beside a mount unit, which mounts at the next use what failed at boot; empty for none.
    again: str = ""

    def units(self) -> Tuple[str, ...]:
        """The units."""
        return (self.unit, self.again) if self.again else (self.unit,)

    @property
    def shown(self) -> str:
        """What is to be mounted, for states."""
        return "%s (%s)" % (self.source, self.type)

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """Enabled and mounted, from the right source and with the right type."""
        return {"enabled": "yes", "mounted": self.shown}

    def actual(self, context: Context) -> State:
        """The same as systemd and the kernel say. Raises ResourceFailed if it cannot be mounted, and why."""
        shown = show(context, self.unit)
        states = [show(context, unit).get("UnitFileState") for unit in self.units()]
        enabled = "yes" if all(state in ENABLED for state in states) else "no"
        table = mount_units.table(context)
        there = mount_units.mounted_at(table, self.path)
        if there is not None and not is_right(there, table, self.source, self.type):
            return {"enabled": enabled, "mounted": "%s (%s)" % (there.source, there.type)}
        if shown.get("ActiveState") == "active" if self.unit.endswith(mount_units.AUTOMOUNT) else there is not None:
            return {"enabled": enabled, "mounted": self.shown}
        self.refuse_without_helper(context)
        self.refuse_to_hide_login()
        context.remark = self.hidden(context, table)
        return {"enabled": enabled, "mounted": None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Enable the unit and mount; ResourceFailed if another is there, jobs use what it hides, or mount(8) fails."""
        there = mount_units.mounted_at(mount_units.table(context), self.path)
        if "mounted" in differing and there is not None:
            raise ResourceFailed(
                "%s (%s) is mounted at %s, and not by slurmfab. Unmount it, and take it out of /etc/fstab"
                % (there.source, there.type, self.path)
            )
        if "mounted" in differing:
            self.refuse_under_jobs(context)
        context.must(["systemctl", "enable", "--quiet", "--", *self.units()])
        if "mounted" in differing and self.again:
            # Where the file system is mounted already, systemd refuses this, and the next boot does it.
            context.run(["systemctl", "reset-failed", "--", self.again])
            context.run(["systemctl", "start", "--", self.again])
        if "mounted" in differing:
            self.start(context)

    def start(self, context: Context) -> None:
        """Start the unit again until it works or `patience` is over: then ResourceFailed in mount(8)'s words."""
        end = time.monotonic() + self.patience
        while True:
            context.run(["systemctl", "reset-failed", "--", self.unit])
            done = context.run(["systemctl", "start", "--", self.unit], seconds=self.seconds + START_SECONDS)
            if done.returncode == 0:
                return
            if time.monotonic() >= end:
                raise ResourceFailed(
                    "%s: %s%s" % (self.shown, mount_units.failure_text(context, self.unit), self.log_hint())
                )
            context.tell("%s cannot be mounted yet" % self.path)
            time.sleep(PAUSE_SECONDS)

    def refuse_without_helper(self, context: Context) -> None:
        """Raise ResourceFailed if mount(8) needs a program for this type that no package of Debian's has."""
        if self.type not in WITHOUT_PACKAGE or any(os.path.exists(context.path(one % self.type)) for one in HELPERS):
            return
        if "\t%s\n" % self.type in context.run(["cat", "/proc/filesystems"]).stdout.decode():
            return
        raise ResourceFailed(
            "no package of the distribution has the client of %s; install %s, and deploy again"
            % (self.type, WITHOUT_PACKAGE[self.type])
        )

    def refuse_to_hide_login(self) -> None:
        """Raise ResourceFailed if the mount would hide the home, and so the SSH keys, of the user who logs in here."""
        user = os.environ.get("SUDO_USER", "")
        if not user:
            return
        import pwd

        try:
            home = pwd.getpwnam(user).pw_dir
        except KeyError:
            return
        if mounts.below(home, self.path):
            raise ResourceFailed(
                "%s holds %s, the home of %s, with whose SSH keys slurmfab logs in, and the mount would hide it. Move "
                "that home elsewhere (usermod --move-home), or mount it by hand with that home in it"
                % (self.path, home, user)
            )

    def refuse_under_jobs(self, context: Context) -> None:
        """Raise ResourceFailed if jobs run here, and processes use the directory that the mount would hide."""
        jobs = in_use.running_jobs(context)
        users = in_use.processes(context, self.path) if jobs else []
        if users:
            raise ResourceFailed(
                "%s, and %s is in use by %s: the mount would hide their files. Wait for the jobs, or drain the node, "
                "and deploy again" % (in_use.told_jobs(jobs), self.path, ", ".join(users))
            )

    def hidden(self, context: Context, table: List[mounts.Mount]) -> str:
        """A remark about local files at the path, which the mount hides; empty for none."""
        below = mounts.at(self.path, table)
        if below is not None and not below.is_local:
            return ""
        found = names(context.path(self.path))
        return (
            "%s has %d files or directories of this host, which the mount hides" % (self.path, len(found))
            if found
            else ""
        )

    def log_hint(self) -> str:
        """Where else to look."""
        if self.type == "glusterfs":
            return "; see /var/log/glusterfs/%s.log" % self.path.strip("/").replace("/", "-")
        return ""


def is_right(there: mounts.Mount, table: List[mounts.Mount], source: str, kind: str) -> bool:
    """Whether what is mounted there, among all mounts, has the cluster file's source and type."""
    if kind == BIND:
        origin = mounts.at(source, [one for one in table if one is not there])
        return origin is not None and origin.device == there.device
    return is_type(there.type, kind) and is_source(there.source, source)


def is_type(actual: str, wanted: str) -> bool:
    """Whether the kernel's type of a mount is the one of the cluster file.

    >>> is_type("nfs4", "nfs"), is_type("fuse.glusterfs", "glusterfs"), is_type("ext4", "xfs")
    (True, True, False)
    """
    return (
        wanted in ("auto", actual)
        or actual == "fuse." + wanted
        or any(actual in one and wanted in one for one in ALIKE)
    )


def is_source(actual: str, wanted: str) -> bool:
    """Whether the kernel's source of a mount is the one of the cluster file.

    >>> is_source("gl:vol", "gl:/vol"), is_source("/dev/sda1", "LABEL=data"), is_source("a:/x", "b:/x")
    (True, True, False)
    """
    if wanted.startswith(BY_MARK):
        return actual.startswith("/dev/")
    return plain(actual) == plain(wanted)


def plain(source: str) -> str:
    """A source as it is compared: without a slash at its end, and without the first one of a volume's name."""
    return source.rstrip("/").replace(":/", ":", 1)
