"""The guide for the users of a cluster, as Markdown and as a page for browsers."""

from __future__ import annotations

from slurmfab.base.markup import Markup, fill, joined, policy
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.core.user_guide import around, markdown, tables
from slurmfab.core.user_guide.amounts import counted
from slurmfab.core.user_guide.offer import Offer

STYLES = ("colours.css", "guide.css")


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
    """The guide as one HTML file.

    Args:
        text: the guide as Markdown.
    """
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
