"""The commands of slurmfab's program for Podman on hosts."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.programs.containers import images, prune, sdocker

DOCKER, PRUNE, IMAGES = "docker", "prune", "images"


def main(word: str, place: str, *words: str) -> int:
    """Run `docker` (sdocker), `prune` or `images`, by settings at `place`, or the directory that has them."""
    if word == IMAGES:
        return images.show(place)
    settings: Mapping[str, Any] = json_objects.read(place)
    if word == DOCKER:
        return sdocker.run(words, str(settings.get("scratch", "")))
    if word == PRUNE:
        return prune.prune(settings)
    print("run.py: there is no command %s" % word, file=sys.stderr)  # noqa: T201 - this is a command
    return 2
