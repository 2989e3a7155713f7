"""The program of notebooks: `root` answers the hub on its host, `server` starts a user's server in a job."""

from __future__ import annotations

from slurmfab.on_hosts.programs.jupyter import root, server


def main(word: str, *words: str) -> int:
    """Run one of both; returns the exit code."""
    return root.main() if word == "root" else server.main(*words)
