"""The images of a user, and when each was used last; this runs as the user, who can write everything there."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Iterator, List, NamedTuple

LIST = "overlay-images/images.json"
MOST_BYTES = 64 << 20
ID = re.compile(r"[0-9a-f]{64}")


class Image(NamedTuple):
    """An image of a user."""

    used: float  # when it was used last, in seconds since 1970
    id: str


def images_in(directory: str) -> Iterator[Image]:
    """Yield the images below a user's directory for Podman.

    Podman does not note when an image is used. But for each new container it reads the file `link` of the image's last
    layer, so that the time of its last access tells it to the day (mount(8), relatime). With noatime it stays at the
    time when the image came.
    """
    for entry in entries("%s/%s" % (directory, LIST)):
        name = entry.get("id")
        if not isinstance(name, str) or not ID.fullmatch(name):
            continue
        layers = [entry.get("layer"), *(entry.get("mapped-layers") or ())]
        times = [time_of("%s/overlay-images/%s" % (directory, name), "st_mtime")]
        for layer in layers:
            if isinstance(layer, str) and ID.fullmatch(layer):
                times.append(time_of("%s/overlay/%s/link" % (directory, layer), "st_atime"))
        yield Image(max(times), name)


def entries(path: str) -> List[Any]:
    """The objects in Podman's list of images; none where it is missing or damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            whole = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return []
    return [entry for entry in whole if isinstance(entry, dict)] if isinstance(whole, list) else []


def time_of(path: str, name: str) -> float:
    """A time of a file; 0 if it is missing."""
    try:
        return float(getattr(os.stat(path), name))
    except OSError:
        return 0.0


def show(directory: str) -> int:
    """Print time and id of each image, a line for each; the exit code."""
    for image in images_in(directory):
        sys.stdout.write("%.0f %s\n" % image)
    return 0
