"""Applying a resource: its own state, then SELinux's labels of its files, and the time that both took."""

from __future__ import annotations

import os
import stat
import time
from typing import Dict, Optional, Tuple

from slurmfab.on_hosts.agent.core import labels, replace
from slurmfab.on_hosts.agent.core.failure_reasons import reason
from slurmfab.on_hosts.agent.core.resource import (
    CHANGED,
    FAILED,
    OK,
    WOULD_CHANGE,
    Change,
    Context,
    Outcome,
    Resource,
    ResourceFailed,
    apply,
)
from slurmfab.on_hosts.agent.core.safe_paths import Opened, open_folder, open_parent

Types = Tuple[str, str]  # the type of a label as found, and the policy's


def apply_timed(resource: Resource, context: Context) -> Outcome:
    """Apply a resource and mend its labels, or only compare both; the outcome has the time that it took."""
    start = time.monotonic()
    try:
        outcome = apply(resource, context)
        if outcome.status != FAILED:
            outcome = with_labels(resource, context, outcome)
    except Exception as error:
        error.__dict__["resource"] = resource.id
        raise
    return Outcome(**{**vars(outcome), "seconds": round(time.monotonic() - start, 3)})


def with_labels(resource: Resource, context: Context, outcome: Outcome) -> Outcome:
    """The outcome of a resource with the wrong labels of its files, which are mended unless this is a dry run."""
    try:
        wrong = wrong_labels(resource, context)
        if not wrong:
            return outcome
        context.touched.update(wrong)
        changes = (*outcome.changes, *(Change("label of " + path, *types) for path, types in wrong.items()))
        shown = {**vars(outcome), "changes": changes}
        if context.dry_run:
            return Outcome(**{**shown, "status": WOULD_CHANGE})
        for path in wrong:
            label(context, path, mend=True)
        left = wrong_labels(resource, context)
    except (ResourceFailed, OSError) as error:
        return Outcome(**{**vars(outcome), "status": FAILED, "message": reason(error)})
    if left:
        states = ("the label of %s is %s" % (path, types[0] or "missing") for path, types in left.items())
        return Outcome(**{**shown, "status": FAILED, "message": "after the change, " + ", ".join(states)})
    return Outcome(**{**shown, "status": CHANGED if outcome.status == OK else outcome.status})


def wrong_labels(resource: Resource, context: Context) -> Dict[str, Types]:
    """The resource's files and directories whose labels have another type than the policy's, by path."""
    if labels.policy() is None:
        return {}
    found = {path: label(context, path) for path in resource.labelled(context)}
    return {path: types for path, types in found.items() if types is not None}


def label(context: Context, path: str, *, mend: bool = False) -> Optional[Types]:
    """How the label of a file or directory differs; `None` if it does not, or there is none, or a link of a user's.

    `mend`: whether to give it the policy's label.
    """
    try:
        descriptor, real = opened(context.path(path))
    except (ResourceFailed, OSError):
        return None  # the resource itself tells what is in the way
    with Opened(descriptor):
        if mend:
            labels.mend(descriptor, real)
        return labels.difference(descriptor, real)


def opened(path: str) -> Tuple[int, str]:
    """An open file or directory and its path without links; ResourceFailed or OSError as of `safe_paths`."""
    folder, name = open_parent(path)
    with folder:
        status = folder.find(name)
        descriptor = folder.open(name) if status is not None and stat.S_ISREG(status.st_mode) else None
        if descriptor is not None:
            if not replace.has_other_names(folder, os.fstat(descriptor)):
                return descriptor, folder.place(name)
            os.close(descriptor)
            raise ResourceFailed("%s is one of several names of a file" % path)
    directory = open_folder(path)
    return directory.descriptor, directory.path
