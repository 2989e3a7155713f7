"""The firewalls on a host that are not slurmfab's."""

from __future__ import annotations

import json
from typing import Iterable, List

from slurmfab.on_hosts.agent.core.reading import read_text

UFW_CONF = "/etc/ufw/ufw.conf"
OURS = "slurmfab"


def read(root: str, asked: Iterable[str]) -> List[str]:
    """Managers of rules that are at work, and chains of others that drop all packets for the host that no rule accepts.

    Args:
        asked: `firewalld` and `ufw`; without any, nothing is looked at.
    """
    wanted = set(asked)
    if root or not wanted:
        return []
    is_on = {
        "ufw": "ENABLED=yes" in read_text(UFW_CONF).split(),
        "firewalld": printed("systemctl", "is-active", "firewalld") == "active\n",
    }
    return [*(name for name in sorted(wanted) if is_on.get(name)), *chains(printed("nft", "-j", "list", "chains"))]


def printed(*argv: str) -> str:
    """What a program prints; nothing where it is missing."""
    import subprocess  # few clusters ask

    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def chains(listing: str) -> List[str]:
    """Family, table and name of each such chain.

    Args:
        listing: what `nft -j list chains` prints.
    """
    try:
        found = [one["chain"] for one in json.loads(listing or "{}").get("nftables", ()) if "chain" in one]
    except ValueError:
        return []
    dropping = (one for one in found if one.get("hook") == "input" and one.get("policy") == "drop")
    return ["%(family)s %(table)s %(name)s" % one for one in dropping if one["table"] != OURS]
