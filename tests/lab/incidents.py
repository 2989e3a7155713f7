"""Incidents on a lab cluster, as the scripts that bring each about, with what `explain` has to say of it, and what not.

They are in incidents.yml. Lines `job=1` and `first=2` that a script prints are gaps that later scripts and words have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HELPERS = r"""
sub() { who=$1; shift; (cd /tmp && runuser -u "$who" -- sbatch --parsable --mem=50 --output=/dev/null "$@"); }
of_job() { squeue --noheader --states=all --jobs="$1" --Format="$2:|" | head -n 1 | tr -d '|' | sed 's/ *$//'; }
until_is() ( # JOB FIELD VALUE...: until the field of the job has one of the values
    it=$1; what=$2; shift 2
    for i in $(seq 900); do
        seen=$(of_job "$it" "$what"); for one; do [ "$seen" = "$one" ] && return 0; done
        sleep 0.1
    done
    echo "job $it: $what is $seen, not $*" >&2; scontrol show job "$it" >&2; return 1
)
until_ran() ( # until its first step runs
    until_is "$1" State RUNNING
    for i in $(seq 300); do
        [ -n "$(sstat --noheader --allsteps --parsable2 --jobs="$1" --format=JobID 2>/dev/null)" ] && return 0
        sleep 0.1
    done
)
until_on_record() ( # JOB STATE: until the database has it
    for i in $(seq 1200); do
        case "$(sacct --noheader -X -P --jobs="$1" --format=State,End)" in "$2"*"|"[0-9]*) return 0;; esac
        sleep 0.1
    done
    echo "sacct has $(sacct -X -P --jobs="$1")" >&2; return 1
)
until_state_of_node() ( # NODE PATTERN
    for i in $(seq 900); do
        case "$(sinfo --noheader --Node --nodes="$1" --format=%T | head -n 1)" in $2) return 0;; esac
        sleep 0.1
    done
    sinfo --Node --nodes="$1" >&2; return 1
)
set -e
"""
"""What scripts on the controller have for their use."""

EXAMPLE = "limit-then-out-of-memory"  # the incident whose answer docs/explain.md shows
FILE = Path(__file__).with_name("incidents.yml")
CANCEL = """
until [ -z "$(squeue --noheader)" ]; do
    for user in $(squeue --noheader --format=%u | sort -u); do scancel --quiet --user="$user" || :; done
    sleep 0.2
done
"""
RESUME = "scontrol update NodeName={} State=RESUME || :; until_state_of_node {} '[aim]*[de]'"

Step = tuple[str, str]
"""A host and its script. `fab` is a task of slurmfab's; `off` and `on` are the power of a host."""

CAUSES = (
    "out of memory", "reached its time limit", "cancelled", "drained", " down ", "allows", "allowed to", "no room",
    "depend", "--begin", "hold", "held it", "prolog failed", "its node failed", "the node was at fault", "give way",
    "licences", "reserved", "killed by signal", "could not be opened", "put back", "starts no jobs", "exit code",
    "never starts", "suspended", "comes first", "ran out of memory", "at most", "refused by", "its interpreter",
    "expired", "was killed at", "was stopped at", "backfill", "its name", "reaches into", "may not use",
    "slurm.conf", "epilog", "tasks of its array", "directory was not there", "has no account", "does not answer",
    "may be at fault",
)  # fmt: skip
"""Words for causes: one that an incident does not want is a false cause."""


@dataclass(frozen=True)
class Incident:
    """Something that happened on a cluster.

    Args:
        name: what the test calls it.
        steps: what brings it about.
        wanted: each of these is in the texts of the chain, with gaps.
        asked: what `explain` is asked about, with gaps.
        may: causes that it may name as well.
        after: what makes the cluster whole again.
        code: the exit code.
    """

    name: str
    steps: tuple[Step, ...]
    wanted: tuple[str, ...]
    asked: str = "{job}"
    may: tuple[str, ...] = ()
    after: tuple[Step, ...] = ()
    code: int = 0


def steps(found: Iterable[Mapping[str, str]]) -> tuple[Step, ...]:
    """The steps as the file has them; `cancel` ends all jobs, `resume` puts a node back into service."""
    pairs = (pair for one in found for pair in one.items())
    known = {"cancel": lambda _: CANCEL, "resume": lambda node: RESUME.format(node, node)}
    return tuple(("ctl", known[host](script)) if host in known else (host, script) for host, script in pairs)


def incident(row: Mapping[str, Any]) -> Incident:
    """An incident from its row in the file."""
    may = CAUSES if row.get("may") == "all" else tuple(row.get("may", ()))
    after, asked, code = steps(row.get("after", ())), row.get("asked", "{job}"), row.get("code", 0)
    return Incident(row["name"], steps(row.get("steps", ())), tuple(row["wanted"]), asked, may, after, code)


INCIDENTS = tuple(map(incident, yaml.safe_load(FILE.read_text())))
