"""The four kinds of drift, in the words that plans, checks and their JSON share, and what is done about the fourth."""

from __future__ import annotations

from collections.abc import Sequence

CHANGED_FILE = "changed file"
"""A file on a host is not what it should be; a deployment writes it anew."""

OLDER_FILE = "older file loaded"
"""A daemon runs with an older file than the disk holds; a deployment makes it read the file."""

KEY_NOT_LOADED = "key not loaded"
"""munged was started before its key, which is right on the disk, got there; a deployment restarts it."""

OTHER_HARDWARE = "other hardware"
"""A node has other hardware than the lock says; no deployment changes that."""


def acceptance(roles: Sequence[str], node: str = "") -> str:
    """How other hardware is accepted; replace-node takes those that are compute nodes alone.

    Args:
        roles: of the node.
        node: its name; left out where the words are for several.
    """
    if tuple(roles) == ("compute",):
        return f"fab replace-node {node} --accept-hardware" if node else "fab replace-node with --accept-hardware"
    return f"remove hardware and gpus from {node or 'the node'}'s entry in the lock, then fab deploy"
