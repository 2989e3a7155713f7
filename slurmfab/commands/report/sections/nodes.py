"""All hosts as a table that readers can filter and sort."""

from __future__ import annotations

from collections import Counter

from slurmfab.base.markup import fill
from slurmfab.commands.report.node_views import LOOKS, gib, views
from slurmfab.commands.report.section import Missing, Section, Sources


def section(sources: Sources) -> Section | None:
    """The table of hosts; it has what the lock knows of hosts that did not answer."""
    rows = views(sources)
    shown = Counter(view.look.css for view in rows)
    note = (
        "From the lock beside the cluster file: the hosts were not asked for this page."
        if isinstance(sources.facts, Missing)
        else "As the hosts told when this page was made; for hosts that did not answer, what the lock knows of them."
    )
    return Section(
        "nodes",
        "Hosts",
        fill(
            "nodes.html.j2",
            rows=rows,
            gib=gib,
            has_status=not isinstance(sources.status, Missing),
            looks=[(look, shown[look.css]) for look in LOOKS if look.css in shown],
        ),
        note=note,
        badge=str(len(rows)),
    )
