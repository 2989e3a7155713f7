"""The scenarios, in the order of the table and of a run of them all."""

from __future__ import annotations

from benchmarks.scenarios import (
    add_node,
    configless,
    far_hosts,
    first_deployment,
    many_hosts,
    running_cluster,
    slow_link,
    without_hosts,
)
from benchmarks.scenarios.scenario import Scenario, Setting

__all__ = ["SCENARIOS", "Scenario", "Setting"]

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        first_deployment.SCENARIO,
        first_deployment.ACCOUNTING,
        running_cluster.NO_CHANGE_5,
        running_cluster.NO_CHANGE_16,
        running_cluster.ONE_VALUE,
        configless.SCENARIO,
        add_node.SCENARIO,
        running_cluster.CHECK_CLUSTER_5,
        running_cluster.CHECK_CLUSTER,
        running_cluster.FULL_QUEUE,
        many_hosts.LAB_16,
        many_hosts.LIGHT_64,
        many_hosts.LIGHT_512,
        far_hosts.FAR,
        far_hosts.FAR_10000,
        without_hosts.TEN_THOUSAND,
        without_hosts.START,
        slow_link.SLOW_20,
        slow_link.SLOW_100,
    )
}
"""By name."""
