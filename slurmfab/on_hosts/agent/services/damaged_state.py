"""Damaged files of slurmctld's state: by which words they are known, and the ways out."""

from __future__ import annotations

import os
import re

DAMAGED = re.compile(
    r"fatal: (?:.* )?(?:Incomplete|incompatible|Can ?not recover|Could not recover|start with '-i')", re.IGNORECASE
)
"""How slurmctld ends with a file of its state that it cannot read to the end, or that has another version."""

CONTENTS = (
    ("assoc_usage", r"assoc[_ ]usage", "the use that fair share and limits of accounts count with"),
    ("qos_usage", r"qos[_ ]usage", "the use that limits of QOS count with"),
    ("assoc_mgr_state", r"assoc[_ ]mgr", "no more than slurmdbd sends again"),
    ("last_tres", r"tres", "no more than slurmdbd sends again"),
    ("resv_state", r"reservation", "all reservations"),
    ("node_state", r"node", "which nodes are drained or down, and why"),
    ("part_state", r"partition", "what scontrol has changed of partitions"),
    ("trigger_state", r"trigger", "all triggers (strigger)"),
    ("fed_mgr_state", r"fed_mgr", "the federation"),
    ("priority_last_decay_ran", r"priority last decay", "when the use of accounts was last reduced"),
    ("last_config_lite", r"last_config", "no more than slurm.conf has"),
    ("job_state", r"job", "all jobs, those that run as well"),
)
"""Files of slurmctld's state: the name, how its words name it, and what would be lost without it."""


def damaged_file(said: str) -> str:
    """The name of the file of its state because of which slurmctld ended; empty if that was not the reason."""
    found = next((line for line in re.split(r" \| |\n", said) if DAMAGED.search(line)), "")
    return next((name for name, pattern, _ in CONTENTS if found and re.search(pattern, found, re.IGNORECASE)), "")


def look_at(path: str) -> str:
    """Shell text that prints what is known of the copy of a file of its state, and whether one was put aside."""
    text = "stat --format='%s %.16y' {}.old 2>/dev/null; cmp -s {} {}.old && echo same; ls {}.damaged 2>/dev/null; :"
    return text.replace("{}", path)


def way_out(path: str, seen: str, fab: str) -> str:
    """What to do about a file of its state that slurmctld cannot read, instead of starting it with -i.

    `seen`: what `look_at` printed. `fab`: the name of the program that users run.
    """
    folder, name = os.path.split(path)
    lost = next(lost for one, _, lost in CONTENTS if one == name)
    size, _, when = seen.partition("\n")[0].partition(" ")
    is_tried = ".damaged" in seen
    aside = "cd %s && mv %s %s.damaged" % (folder, name, name)
    # Where there is no file, slurmctld reads some from their copies.
    both = "%s%s" % (aside + "-too" * is_tried, " && mv %s.old %s.old.damaged" % (name, name) if size else "")
    ways = ["without it: %s. What would be lost is %s" % (both, lost)]
    if size not in ("", "0") and not is_tried and "\nsame" not in seen:
        copied = "%s && cp -p %s.old %s" % (aside, name, name)
        ways = ["with its copy of %s: %s" % (when, copied), "if that is damaged, too, %s" % ways[0]]
    return (
        "%s is damaged. Do not follow Slurm's advice to start slurmctld with -i. To go on %s. Or with a backup: "
        "%s restore BACKUP" % (path, "; ".join(ways), fab)
    )
