"""Nodes whose slurmd fetches Slurm's files in the site's own way, from the cluster's controllers: that stays."""

from __future__ import annotations

from slurmfab.core.plan.plan_input import PlanInput

DEFAULT_PORT = "6817"


def port(plan_input: PlanInput) -> str:
    """The port at which slurmctld serves files; the first, if it has several."""
    return plan_input.conf_wanted.settings.get("slurmctldport", DEFAULT_PORT).partition("-")[0]


def site_servers(plan_input: PlanInput, host: str) -> str:
    """The site's `--conf-server` of a slurmd, if of this cluster's controllers alone; empty otherwise."""
    facts = plan_input.facts.get(host)
    if not facts or facts.fetches or not plan_input.cluster.fetches(host):
        return ""
    places = facts.conf_server.split(",")
    return facts.conf_server if all(is_controller(plan_input, place) for place in places) else ""


def is_controller(plan_input: PlanInput, place: str) -> bool:
    """Whether slurmctld of this cluster listens at a place, such as `ctl:6817` or `[fd83::11]`."""
    name, colon, number = place.rpartition(":")
    if not colon or place.endswith("]"):
        name, number = place, DEFAULT_PORT
    controllers = plan_input.cluster.controllers
    is_one = any(plan_input.is_same_host(name.strip("[]"), controller) for controller in controllers)
    return bool(name) and number == port(plan_input) and is_one
