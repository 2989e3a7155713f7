"""The task `user-guide`: the pages for users as files, for a web server, a wiki, or to look at before a deployment."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.exit_codes import DONE
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.user_guide import guide, job_page
from slurmfab.core.user_guide.offer import offer

MARKDOWN, PAGE, JOB_PAGE = "guide.md", "guide.html", "job.html"
"""The names of the files; the pages have links to each other by these names."""


def write_files(cluster: str, output: str) -> int:
    """Write the files, and say where they are; no host is asked.

    Args:
        output: the directory for the files; empty for one with the cluster's name in the current directory.

    Returns:
        The exit code, 0.

    Raises:
        InputError: the cluster file is wrong, or a file cannot be written.
    """
    known = loading.load_named(cluster)
    folder = Path(output or f"{known.cluster.name}-users")
    texts = files(known.cluster, known.lock)
    for name, text in texts.items():
        atomic_file.write(folder / name, text, mode=atomic_file.READABLE_BY_ALL)
    lines = [f"Written: {', '.join(texts)} in {folder}."]
    if not any(host.hardware for host in known.lock.hosts.values()):
        lines.append("Without CPUs and memory of the nodes, which a deployment finds out.")
    write("\n".join(lines), sys.stdout)
    return DONE


def files(cluster: Cluster, lock: Lock) -> Mapping[str, str]:
    """The text of each file by its name.

    Args:
        lock: what is known of the nodes.
    """
    found = offer(cluster, lock)
    text = guide.markdown_text(found)
    return {MARKDOWN: text, PAGE: guide.page(cluster, text), JOB_PAGE: job_page.page(found)}
