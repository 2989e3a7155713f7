"""SSSD's settings on a host, and that PAM and NSS ask it: users and groups come from a directory.

Debian's packages have PAM and NSS ask SSSD, after the host's own files: users of /etc/passwd, root among them, never
depend on it (pam_localuser(8)). A change is guarded (`slurmfab.on_hosts.agent.services.login_guard`) until another
login has passed it, because the user who deploys may be one of the directory.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Dict, Iterable, Optional, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import OWNED, SSSD_CONF
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.files.owned_files import ACCESS, OwnedFiles
from slurmfab.on_hosts.agent.people import ldap_probe
from slurmfab.on_hosts.agent.services import login_guard

UNIT = "sssd"
OF = "directory"  # what hosts note the files as

CA = "/etc/sssd/slurmfab-ca.pem"  # the certificate by which the servers are known
HOMES_PROFILE = "slurmfab-homes"
HOMES_FILE = "/usr/share/pam-configs/" + HOMES_PROFILE
HOMES_LINE = "pam_mkhomedir.so umask=0077"
HOMES_HEAD = (
    "Name: Homes are made at the first login (slurmfab)\n"
    "Default: no\nPriority: 0\nSession-Type: Additional\nSession-Interactive-Only: yes\nSession:\n"
)
IF_HOME = "\t[success=%s default=%s]\tpam_succeed_if.so quiet home =~ %s\n"


def homes_text(folders: Iterable[str]) -> str:
    """A profile of pam-auth-update(8): homes are made right in these folders, and a login goes on without one.

    Root makes them where the directory says, and would give a folder of /etc away, or one behind a link in another
    user's home. In patterns of pam_succeed_if(8), a star stands for slashes, too.
    """
    folders = tuple(folders)
    lines, after = "", 2 * len(folders)
    for number, folder in enumerate(folders):
        rest = after - 2 * number
        # Too deep: past this folder; right in it: to the end, where the home is made.
        lines += IF_HOME % (1, "ignore", folder + "/*/*") + IF_HOME % (rest - 1, "ignore", folder + "/*")
    end = "\t[default=1]\t\t\tpam_permit.so\n"
    return HOMES_HEAD + IF_HOME % (after + 2, "ignore", "*/.*") + lines + end + "\toptional\t\t\t%s\n" % HOMES_LINE


NSSWITCH = "/etc/nsswitch.conf"
COMMON = ("account", "auth", "password", "session", "session-noninteractive")
LOGIN_FILES = (
    SSSD_CONF,
    NSSWITCH,
    *("/etc/pam.d/common-" + name for name in COMMON),
    *("/var/lib/pam/" + name for name in (*COMMON, "seen")),
)
"""What is as it was before where another login fails; pam-auth-update notes in /var/lib/pam what it has written."""

UNDONE = (*LOGIN_FILES, CA, HOMES_FILE, "%s/%s.json" % (OWNED, OF))
"""What a rollback restores."""

NOTHING = "# Made by slurmfab: another login failed with what was here.\n"
"""sssd.conf where there was none before: SSSD does not run with it, and asks nobody."""

CACHES = tuple("/var/lib/sss/db/%s.ldb" % name for name in ("cache_directory", "timestamps_directory", "config"))
"""What SSSD remembers of the directory, hashes of passwords among it, and its own copy of sssd.conf with another."""

PAM, HOMES, NSS = "PAM asks SSSD", "homes at first login", "NSS asks SSSD"
YES = "yes"
ASKS_NSS = r"(?m)^%s:[^#\n]*\ssss(\s|$)"
ADDED_NSS = re.compile(rb"^((?:passwd|group):(?![^#\n]*\ssss(?:\s|$))[^#\n]*[^#\s])", re.MULTILINE)
PAM_AUTH_UPDATE = ("env", "DEBIAN_FRONTEND=noninteractive", "pam-auth-update", "--package")
EDITED = (
    "%s: it is not so, because somebody has edited /etc/pam.d/common-* by hand, and pam-auth-update leaves such files "
    "alone. Repair: pam-auth-update --force --enable sss, which makes them as the packages have them"
)

TOLD = 10
COLLIDE = (
    "entries of the directory have numbers or names of hosts, and no host would see them: %s. Nothing was changed. "
    "Give them others; or name them in directory.sssd.ignored; or in directory.sssd.admins, where groups and rules of "
    "sudo on hosts mean them (a number in a rule as '#20000'); or, for those below it, set directory.sssd.min_id"
)

OF_UNIT = {SSSD_CONF: ("root:root 0640", "root:sssd 0640"), CA: ("root:sssd 0644",)}
"""What the unit of SSSD's package makes of these files at each start: in Debian 13, whose group is root's, too, and in
Ubuntu 26.04, where the daemon is the user sssd."""


class DirectoryService(OwnedFiles):
    """The files of SSSD; PAM and NSS ask it, and PAM makes homes if its profile is among the files."""

    kind: ClassVar[str] = "directory-service"
    UNSHOWN: ClassVar[Tuple[str, ...]] = (*OwnedFiles.UNSHOWN, "guard")
    guard: str = ""  # as `ldap_probe.collisions` takes it, in JSON

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        """The files that differ, their record, and those that PAM and NSS read."""
        own = super().touches(differing - {PAM, HOMES, NSS})
        return (*own, *(LOGIN_FILES[1:] if differing & {PAM, HOMES, NSS} else ()))

    def wanted(self, context: Context) -> State:
        """The files, and who asks; without files, nobody makes homes. The rest goes with the packages."""
        asks = {PAM: YES, NSS: YES} if self.files else {}
        return {**super().wanted(context), **asks, HOMES: YES if HOMES_FILE in self.by_path() else None}

    def actual(self, context: Context) -> State:
        """The same as found."""
        state: Dict[str, Any] = {**super().actual(context)}
        for path, accesses in OF_UNIT.items():
            if state.get(path + ACCESS) in accesses:
                state[path + ACCESS] = super().wanted(context)[path + ACCESS]
        pam = {name: text(context, "/etc/pam.d/common-" + name) for name in ("account", "auth", "session")}
        asks_pam = all("pam_sss.so" in pam[name] for name in ("account", "auth"))
        there = {PAM: asks_pam, NSS: asks_nss(text(context, NSSWITCH))} if self.files else {}
        asks = {name: YES if is_so else None for name, is_so in there.items()}
        return {**state, **asks, HOMES: self.makes_homes(pam["session"])}

    def makes_homes(self, session: str) -> Optional[str]:
        """Whether the first login makes a home, and only where the profile says."""
        if HOMES_LINE not in session:
            return None
        profile = self.by_path()[HOMES_FILE].text if HOMES_FILE in self.by_path() else ""
        wanted = [line.split() for line in profile.partition("Session:\n")[2].splitlines()]
        found = [line.split() for line in session.splitlines()]
        is_so = all(["session", *line] in found for line in wanted)
        return YES if is_so else "in other folders"

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write the files, and have PAM and NSS ask SSSD; or take the files back.

        Raises ResourceFailed if no server of the directory can be asked with these settings, somebody edited PAM's
        files by hand, SSSD refuses the settings, or systemd the guard; all is as it was.
        """
        if SSSD_CONF in differing and self.files:
            self.require_answer(context)
        login_guard.arm(context, LOGIN_FILES, {SSSD_CONF: NOTHING})
        try:
            if not self.files:
                context.must([*PAM_AUTH_UPDATE, "--remove", HOMES_PROFILE])
            super().converge(context, differing - {PAM, HOMES, NSS})
            for cache in () if self.files else CACHES:
                replace.unlink(context.path(cache))
            if self.files and {PAM, HOMES, NSS} & differing:
                self.have_asked(context)
            if {SSSD_CONF, SSSD_CONF + ACCESS, CA} & differing:
                # SSSD runs with the present settings, and stops where there are none.
                context.must(["systemctl", "daemon-reload"])
                verb = "restart" if replace.regular(context.path(SSSD_CONF)) else "stop"
                # Without this systemd refuses the sixth start within ten seconds (systemd.unit(5), StartLimitBurst).
                context.run(["systemctl", "reset-failed", UNIT])
                context.must(["systemctl", verb, UNIT], seconds=120)
            if SSSD_CONF in differing and self.files:
                # What SSSD remembers was found with other settings; where no server answers, it is still used.
                context.run(["sss_cache", "-E"])
        except BaseException:
            login_guard.take_back(context)
            raise

    def require_answer(self, context: Context) -> None:
        """Ask the servers with these settings; one of several is enough.

        Raises ResourceFailed with what is in the way.
        """
        files = {path: one.text for path, one in self.by_path().items()}
        found = ldap_probe.troubles(files[SSSD_CONF], files[CA])
        told = "; ".join("%s: %s" % one for one in found.items() if one[1])
        if all(found.values()):
            raise ResourceFailed("no server of the directory can be asked from here: %s. Nothing was changed" % told)
        if told:
            context.remark = told
        self.refuse_collisions(files)

    def refuse_collisions(self, files: Dict[str, str]) -> None:
        """Ask the directory for entries that no host will see, because a host has their number or name itself.

        Raises ResourceFailed with the first of them: somebody would be missing, or has tried to become another.
        """
        guard = json.loads(self.guard or "{}")
        if not guard.get("searches"):
            return
        try:
            found = ldap_probe.collisions(files[SSSD_CONF], files[CA], guard)
        except ldap_probe.Refused as refused:
            raise ResourceFailed("the directory's entries cannot be compared with hosts: %s" % refused.words) from None
        except OSError as error:
            raise ResourceFailed("the directory's entries cannot be compared with hosts: %s" % error) from None
        if found:
            raise ResourceFailed(COLLIDE % listed(found, TOLD))

    def have_asked(self, context: Context) -> None:
        """Have PAM and NSS ask SSSD, and homes made or not. Raises ResourceFailed if they do not then."""
        profiles = ["sss", *([HOMES_PROFILE] if HOMES_FILE in self.by_path() else [])]
        context.must([*PAM_AUTH_UPDATE, "--remove", *({HOMES_PROFILE} - {*profiles}), "--enable", *profiles])
        switch = replace.find(context.path(NSSWITCH))
        if switch and not asks_nss(switch[1].decode("utf-8", "surrogateescape")):
            lines = ADDED_NSS.sub(rb"\1 sss", switch[1])
            replace.put(context.path(NSSWITCH), lines, switch[0].st_uid, switch[0].st_gid, switch[0].st_mode & 0o777)
        there, wanted = self.actual(context), self.wanted(context)
        wrong = [name for name in (PAM, HOMES, NSS) if there[name] != wanted[name]]
        if wrong:
            raise ResourceFailed(EDITED % ", ".join(wrong))


def asks_nss(switch: str) -> bool:
    """Whether users and groups are asked of SSSD. `switch`: the text of nsswitch.conf(5)."""
    return all(re.search(ASKS_NSS % name, switch) for name in ("passwd", "group"))


def text(context: Context, path: str) -> str:
    """The text of a file; empty for none."""
    return (replace.read(context.path(path)) or b"").decode("utf-8", "surrogateescape")
