"""The program about idle GPUs: `watch` on nodes, `act` on the primary controller."""

from __future__ import annotations

from slurmfab.on_hosts.programs.idle_gpus import act, watch


def main(word: str, settings: str) -> int:
    """Run one of both, with the path of its settings; returns the exit code."""
    return watch.main(settings) if word == "watch" else act.main(settings)
