"""The task `user-guide`: the pages for users as files, for a web server, a wiki, or to look at before a deployment."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from slurmfab.base import atomic_file
from slurmfab.base.exit_codes import DONE
from slurmfab.base.markup import Markup, fill, joined, policy
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.user_guide import around, job_page, markdown, tables
from slurmfab.core.user_guide.amounts import counted
from slurmfab.core.user_guide.offer import Offer, offer

STYLES = ("colours.css", "guide.css")

MARKDOWN, PAGE, JOB_PAGE = "guide.md", "guide.html", "job.html"
"""The names of the files; the pages have links to each other by these names."""

COMMANDS = "/usr/bin"  # the directory of Slurm's commands in all packages


def markdown_text(found: Offer) -> str:
    """The guide as Markdown."""
    cluster = found.cluster
    return markdown.fill(
        "guide.md.j2",
        name=cluster.name,
        has_tools=cluster.user_tools,
        summary=summary(found),
        **tables.values(found),
        **around.values(found),
    )


def page(cluster: Cluster, text: str) -> str:
    """The guide as one HTML file. `text`: the guide as Markdown."""
    body, headings = markdown.html(text)
    style = joined(STYLES)
    return str(
        fill(
            "guide.html.j2",
            name=cluster.name,
            policy=policy(style),
            style=Markup(style),  # files of this package, which do not hold their own end tag
            headings=headings,
            body=body,
        )
    )


def summary(found: Offer) -> str:
    """The first sentence: how large the cluster is."""
    gpus = sum(one.total for one in found.gpus)
    with_gpus = f" with {counted(gpus, 'GPU')}" if gpus else ""
    nodes = counted(len(found.cluster.compute_nodes), "compute node")
    return f"The cluster has {nodes}{with_gpus}."


def write_files(cluster: str, output: str) -> int:
    """Write the files into a directory, by default the cluster's name here, asking no host; or InputError."""
    known = loading.load_named(cluster)
    folder = Path(output or f"{known.cluster.name}-users")
    texts = files(known.cluster, known.lock)
    if not output:
        atomic_file.refuse_link(folder)
    for name, text in texts.items():
        atomic_file.write(folder / name, text, mode=atomic_file.READABLE_BY_ALL)
    lines = [f"Written: {', '.join(texts)} in {folder}."]
    if not any(host.hardware for host in known.lock.hosts.values()):
        lines.append("Without CPUs and memory of the nodes, which a deployment finds out.")
    write("\n".join(lines), sys.stdout)
    return DONE


def files(cluster: Cluster, lock: Lock) -> Mapping[str, str]:
    """The text of each file by its name. `lock`: what is known of the nodes."""
    found = offer(cluster, lock)
    text = markdown_text(found)
    return {MARKDOWN: text, PAGE: page(cluster, text), JOB_PAGE: job_page.page(found)}


def cluster_file(cluster: Cluster) -> str:
    """The cluster's file in /etc/ood/config/clusters.d, in YAML (version 2 of the format)."""
    login = (cluster.login or cluster.controllers)[0]
    # Texts in JSON's spelling are texts of YAML.
    name, host = json.dumps(cluster.name), json.dumps(login)
    return f"""\
---
# Made by slurmfab from the cluster file; to be made anew when its login host changes.
v2:
  metadata:
    title: {name}
  login:
    host: {host}
  job:
    adapter: "slurm"
    cluster: {name}
    bin: "{COMMANDS}"
    conf: "{SLURM_DIRECTORY}/slurm.conf"
"""
