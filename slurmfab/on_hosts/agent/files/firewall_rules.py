"""The rules by which a host lets others in on the cluster's ports: one table of nftables that is slurmfab's alone.

They have a unit of their own. Debian's nftables.service begins and ends with `flush ruleset`, which deletes the tables
of Docker, Podman and everybody else, too.
"""

from __future__ import annotations

import os
from typing import ClassVar, Optional

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES, OWNED
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, State
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.services import login_guard

TABLE = ("table", "inet", "slurmfab")
NO_RULES = "table inet slurmfab\ndelete table inet slurmfab\n"
"""What has no effect but that the table is gone (nft(8): the first line makes it where it is missing)."""

OF = "firewall"
UNIT = "slurmfab-firewall.service"
UNIT_FILE, LINK = ("/etc/systemd/system/%s%s" % (place, UNIT) for place in ("", "sysinit.target.wants/"))
DROP_IN = "/etc/systemd/system/nftables.service.d/slurmfab.conf"
"""With it, nftables.service loads slurmfab's rules again whenever it has flushed all tables."""

RULE_FILES = (FIREWALL_RULES, UNIT_FILE, DROP_IN, "%s/%s.json" % (OWNED, OF))

LISTED = 'nft -f "$1" && nft -s list table inet slurmfab'
"""In an empty network namespace: the rules of a file as nft shows them."""

LOADED, ENABLED = "rules in effect", "at boot"
OLDER, AS_ON_DISK = "others than the file's", "the file's"


class FirewallRules(OwnedFiles):
    """The rules and their unit, in effect now and from the next boot on; without files, neither.

    Each change is guarded (`slurmfab.on_hosts.agent.services.login_guard`) until another login has passed the rules.
    """

    kind: ClassVar[str] = "firewall-rules"
    own_units: ClassVar[tuple[str, ...]] = (UNIT,)
    besides: ClassVar[State] = {LOADED: None, ENABLED: None}

    def wanted(self, context: Context) -> State:
        """The files, in effect."""
        return {**super().wanted(context), **({LOADED: AS_ON_DISK, ENABLED: True} if self.files else {})}

    def actual(self, context: Context) -> State:
        """The same as found."""
        is_enabled = os.path.lexists(context.path(LINK)) or None
        return {**super().actual(context), LOADED: in_effect(context), ENABLED: is_enabled}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Write files and load rules, or take both back; ResourceFailed, all as before, if that fails."""
        rules = self.by_path().get(FIREWALL_RULES)
        if rules:
            context.must(["nft", "--check", "--file", "-"], rules.text.encode())
        login_guard.arm(context, RULE_FILES, {FIREWALL_RULES: NO_RULES})
        try:
            super().converge(context, differing)
            put_in_effect(context)
        except BaseException:
            login_guard.take_back(context)
            raise


def in_effect(context: Context) -> Optional[str]:
    """Whether the kernel has the file's rules, `None` if none; ResourceFailed without a network namespace."""
    try:
        there = context.run(["nft", "-s", "list", *TABLE])
    except ResourceFailed:
        return None  # nft is not installed yet
    if there.returncode != 0:
        return None
    if not os.path.exists(context.path(FIREWALL_RULES)):
        return OLDER
    shown = context.must(["unshare", "--net", "sh", "-c", LISTED, "sh", context.path(FIREWALL_RULES)])
    return AS_ON_DISK if shown == there.stdout.decode(errors="replace") else OLDER


def put_in_effect(context: Context) -> None:
    """Let kernel and systemd have the files' rules, or none; ResourceFailed if nft or systemd refuses."""
    if os.path.exists(context.path(FIREWALL_RULES)):
        replace.put_link(context.path(LINK), "../" + UNIT)
        context.must(["nft", "--file", context.path(FIREWALL_RULES)])
        context.must(["systemctl", "daemon-reload"])
        context.must(["systemctl", "start", UNIT])
    else:
        replace.unlink(context.path(LINK))
        context.run(["systemctl", "stop", UNIT])
        context.run(["nft", "delete", *TABLE])
        context.must(["systemctl", "daemon-reload"])
