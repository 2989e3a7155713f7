"""Other tools that do the same job, each with the files that its users would write, and what they are run with."""

from __future__ import annotations

from benchmarks.peers.peer import Peer
from benchmarks.peers.tools import Tools, installed

__all__ = ["Peer", "Tools", "installed"]
