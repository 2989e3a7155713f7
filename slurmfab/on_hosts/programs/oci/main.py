"""The program of Slurm's own containers, whose step waits for four calls of it: each imports what it needs."""

from __future__ import annotations

STOPPED = '{"status": "stopped"}'  # what slurmstepd is told at the end of a step: there is nothing left to kill


def main(*words: str) -> int:
    """Do one of: `run BUNDLE TASK NAMES`, `query`, `kill`, `delete STEP USER`, or `bundle …` (sbundle)."""
    name, rest = words[0], words[1:]
    if name == "query":
        print(STOPPED)  # noqa: T201
        return 0
    if name == "delete":
        from slurmfab.on_hosts.programs.oci import records

        return records.delete(*rest)
    if name == "run":
        from slurmfab.on_hosts.programs.oci import runtime

        return runtime.run(*rest)
    if name == "bundle":
        from slurmfab.on_hosts.programs.oci import bundle

        return bundle.main(*rest)
    return int(name != "kill")
