"""The program of Slurm's own containers: what it does is its first word."""

from __future__ import annotations

from slurmfab.programs.oci import bundle, runtime


def main(*words: str) -> int:
    """Do one of: `run BUNDLE TASK NAMES`, `query`, `kill`, `delete STEP USER` (see `runtime`), or `bundle …` (sbundle).

    Returns:
        The exit code.
    """
    name, rest = words[0], words[1:]
    if name == "run":
        return runtime.run(*rest)
    if name == "query":
        return runtime.query()
    if name == "delete":
        return runtime.delete(*rest)
    return bundle.main(*rest) if name == "bundle" else int(name != "kill")
