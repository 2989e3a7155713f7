"""What is in the way of slurmfab's rules: other managers of rules, unknown addresses, and who would be shut out."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from slurmfab.base.ip_addresses import parsed
from slurmfab.base.objections import Objection, objected
from slurmfab.cluster.inventory.firewall import MANAGED
from slurmfab.core.plan.phases import firewall
from slurmfab.core.plan.plan_input import PlanInput


def refuse_unfit(plan_input: PlanInput) -> None:
    """Refuse, by InputError, rules that a manager would not know, or that shut out hosts or this machine."""
    wanted = plan_input.cluster.firewall
    if wanted and wanted.mode == MANAGED:
        objected((*_managers(plan_input), *_unknown(plan_input), *_out(plan_input)))


def _managers(plan_input: PlanInput) -> Iterator[Objection]:
    """Yield what is said of each manager of rules that is at work."""
    hosts = [host for host, one in plan_input.facts.items() if one.ufw]
    if hosts:
        yield Objection(
            (*hosts,),
            "firewall: ufw is at work there, and drops what it does not know, whatever slurmfab's rules let in. End it "
            "(ufw disable), or write firewall: checked, open with ufw the ports that docs/firewall.md lists, and "
            "slurmfab tells what is blocked.",
        )
    restricting = [
        host
        for host in plan_input.facts
        if firewall.has_firewalld(plan_input, host) and firewall.restricts_ssh(plan_input, host)
    ]
    if restricting:
        yield Objection(
            (*restricting,),
            "firewall: admins: firewalld is at work there and decides from where SSH is let in; slurmfab's zone lets "
            "in the cluster's hosts alone. Remove admins and users, and write such a rule with firewall-cmd; or end "
            "firewalld there (systemctl disable --now firewalld).",
        )


def _unknown(plan_input: PlanInput) -> Iterator[Objection]:
    """Yield what is said of hosts whose address is not known, so that the others would not let them in."""
    hosts = [host for host in plan_input.heard(plan_input.members) if not plan_input.trusted_addresses(host)]
    if hosts:
        told = "firewall: managed lets hosts in by their addresses, and its own is not known; write it under addresses."
        yield Objection((*hosts,), told)


def _out(plan_input: PlanInput) -> Iterator[Objection]:
    """Yield what is said if this machine's next login would be refused, as far as its address is known."""
    found: dict[str, list[str]] = {}
    for host, facts in plan_input.facts.items():
        # Behind a jump host, its own address on that side is not known; the proof by another login judges these.
        if firewall.restricts_ssh(plan_input, host) and len(facts.way) == 1:
            address = parsed(facts.way[0])
            if not any(address in ipaddress.ip_network(one) for one in firewall.let_in(plan_input, host)):
                found.setdefault(str(address), []).append(host)
    for source, hosts in found.items():
        told = f"firewall: this machine logs in there from {source}, which is in no network of admins: the next login "
        yield Objection((*hosts,), f"{told}would be refused. Add it.")
