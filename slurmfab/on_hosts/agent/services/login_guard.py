"""A guard that takes a change of who may log in back, unless another login has passed it: of PAM, or of the firewall.

The guard has two parts. A transient unit of systemd outlives the agent, its connection and the deployer. It waits for
the lock of this host, which an agent holds until its process ends: at once when the deployer is killed, and after a
minute of silence when the network fails. A unit on the disk does the same at the next boot, before any login, if the
host goes down meanwhile.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import ClassVar, Iterable, Mapping, Optional

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_lock import LOCK
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES, SSSD_CONF
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State

UNIT = "slurmfab-logins-back"
BOOT_UNIT = UNIT + "-at-boot.service"
SYSTEMD = "/etc/systemd/system"
BOOT_FILE, BOOT_LINK = ("%s/%s%s" % (SYSTEMD, place, BOOT_UNIT) for place in ("", "sysinit.target.wants/"))
"""The unit on the disk, and the link by which systemd starts it at boot, as `systemctl enable` makes it."""

EARLIER = "/var/lib/slurmfab/earlier-logins"
"""The files as they were, at their paths below it; exists while a change is not proved. It comes and goes by a rename,
so it is never incomplete."""

NEW, DONE = EARLIER + ".new", EARLIER + ".done"

RESTORE = (
    'cd "$1" && { find . -type f ! -path ./etc/pam.d/sshd; find . -type f -path ./etc/pam.d/sshd; } |'
    ' while read -r file; do mkdir -p "$2/${file%%/*}" && cp -p "$file" "$2/$file.slurmfab-back"'
    ' && sync "$2/$file.slurmfab-back" && mv "$2/$file.slurmfab-back" "$2/$file" || exit 1; done'
    ' && { test ! -f ".%s" || ! command -v nft >/dev/null || nft -f "$2%s"; }'
    ' && { test ! -f ".%s" || test "$2" != / || if grep -q "^[[]" ".%s"; then systemctl -q enable sssd;'
    " systemctl --no-block restart sssd; else systemctl --no-block stop sssd; fi || true; }"
    ' && sync -f "$2/etc" "$2/var/lib/slurmfab" && rm -f "$2%s" "$2%s" && cd / && rm -rf "$1"'
    % (FIREWALL_RULES, FIREWALL_RULES, SSSD_CONF, SSSD_CONF, BOOT_LINK, BOOT_FILE)
)
"""Puts each earlier file back in one step, sshd's own after those that it names, loads the rules of the firewall that
are among them, has SSSD run with its settings or stop without any, and removes the guard. It can be interrupted and run
again. A file that was not there before does no harm without a line for it."""

WAIT = 'flock --shared "$3" true; '

BOOT_TEXT = """\
# Made by slurmfab while a change of who may log in is not proved.
[Unit]
Description=Takes back who may log in, which slurmfab had not proved when the host went down
DefaultDependencies=no
ConditionPathIsDirectory={earlier}
RequiresMountsFor=/var/lib/slurmfab /etc
After=local-fs.target
Before=sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c '{restore}' sh {earlier} /
"""
"""What belongs to sysinit.target is done before sshd or its socket. systemd makes `$` of `$$`, and `%` of `%%`
(systemd.service(5))."""


class LoginGuard(Resource):
    """The end of the guard of a change of who may log in, if there was one."""

    kind: ClassVar[str] = "login-guard"
    wanted_state: ClassVar[State] = {"guard": None}
    proved: bool  # whether another login has passed the change, so that it stays; otherwise it is taken back

    def name(self) -> str:
        """What becomes of the change."""
        return "kept" if self.proved else "taken back"

    def actual(self, context: Context) -> State:
        """Whether there is a guard, or something is left of one."""
        left = any(os.path.lexists(context.path(path)) for path in (NEW, DONE, BOOT_FILE, BOOT_LINK))
        return {"guard": "armed" if is_armed(context) else "left" if left else None}

    def converge(self, context: Context, differing: frozenset[str]) -> None:  # noqa: ARG002
        """Keep the change or take it back, and remove the guard; ResourceFailed if earlier files cannot return."""
        if not self.proved:
            take_back(context)
        disarm(context)


def arm(context: Context, paths: Iterable[str], otherwise: Mapping[str, str] = MappingProxyType({})) -> None:
    """Have these files put back when the present run has ended, or the host has; called before they are changed.

    The agent holds the host's lock. `otherwise`: texts for files that are not there yet. Raises ResourceFailed,
    OSError.
    """
    take_back(context)
    context.must(["rm", "-rf", context.path(NEW)])
    replace.make_directory(context.path(NEW), os.geteuid(), os.getegid(), 0o700)
    for path in paths:
        copy(context, path, otherwise.get(path))
    unit = BOOT_TEXT.format(earlier=EARLIER, restore=RESTORE.replace("%", "%%").replace("$", "$$"))
    replace.put(context.path(BOOT_FILE), unit.encode(), os.geteuid(), os.getegid(), 0o644, make=True)
    replace.put_link(context.path(BOOT_LINK), "../" + BOOT_UNIT)
    moved(context, EARLIER, BOOT_FILE, BOOT_LINK, was=NEW)
    what = "--description=Takes back who may log in unless slurmfab proves it"
    script = ["sh", "-c", WAIT + RESTORE, "sh", context.path(EARLIER), context.path("/"), LOCK]
    try:
        context.run(["systemctl", "stop", UNIT + ".service"])
        context.must(["systemd-run", "--quiet", "--collect", "--unit=" + UNIT, what, *script])
    except ResourceFailed:
        disarm(context)
        raise


def copy(context: Context, path: str, otherwise: Optional[str] = None) -> None:
    """Copy a file with its owner and mode; where it does not exist, write this text, or nothing."""
    found = replace.find(context.path(path))
    if found is None and otherwise is None:
        return
    content = found[1] if found else str(otherwise).encode()
    status = found[0] if found else os.stat(context.path(NEW))
    mode = status.st_mode & 0o777 if found else 0o644
    place = context.path(NEW + path)
    replace.put(place, content, status.st_uid, status.st_gid, mode, make=True)
    while place != context.path(NEW):
        place = os.path.dirname(place)
        replace.sync(place)


def moved(context: Context, path: str, *others: str, was: str) -> None:
    """Rename a directory, and have this and other new names on the disk."""
    for one in others:
        replace.sync(os.path.dirname(context.path(one)))
    replace.rename(context.path(was), context.path(path))
    replace.sync(os.path.dirname(context.path(path)))


def disarm(context: Context) -> None:
    """Remove the guard and keep the change: it counts as proved from one moment on, whatever happens to the host."""
    context.must(["rm", "-rf", context.path(NEW), context.path(DONE)])
    if is_armed(context):
        moved(context, DONE, was=EARLIER)
    context.run(["systemctl", "stop", UNIT + ".service"])
    for path in (BOOT_LINK, BOOT_FILE):
        replace.unlink(context.path(path))
    context.must(["rm", "-rf", context.path(DONE)])


def take_back(context: Context) -> None:
    """Put the earlier files back, and remove the guard, if there is one.

    Raises ResourceFailed if they cannot be put back; the guard still tries it when the run ends, and at the next boot.
    """
    if is_armed(context):
        context.must(["sh", "-c", RESTORE, "sh", context.path(EARLIER), context.path("/")])
        context.run(["systemctl", "stop", UNIT + ".service"])


def is_armed(context: Context) -> bool:
    """Whether a change is not proved yet."""
    return os.path.isdir(context.path(EARLIER))
