"""One GPU check of a cluster: measures each node, then pairs of nodes, and drains nodes that fall short."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.client.commands import PARTITION
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.gpu_check import nodes as nodes_of
from slurmfab.on_hosts.programs.gpu_check import pairs as pairs_of
from slurmfab.on_hosts.programs.gpu_check.jobs import Runner, cancel_leftovers
from slurmfab.on_hosts.programs.gpu_check.nodes import GpuNode
from slurmfab.on_hosts.programs.gpu_check.results import PlannedMeasurement, Result

PASSED, SHORT, NOT_MEASURED = "passed", "falls short", "not measured"
DRAINED, BACK, STILL = "drained", "back in service", "stays drained"
ALL_PASSED, SOME_FALL_SHORT, SOME_NOT_MEASURED = 0, 1, 3  # exit codes

NO_PLACE = "it is not in the partition %s, or that is not UP"

RETESTED = "trial.json"
"""File with the reasons of the nodes that were resumed for this check, for the next check if this one is killed."""


class Check:
    """A run of the GPU check.

    `settings`: see `slurmfab.on_hosts.programs.gpu_check.main`. `drains`: whether nodes are drained and resumed.
    `report`: called with each entry of the history; and with `progress`, whenever that has changed.
    """

    def __init__(
        self,
        context: Context,
        settings: Mapping[str, Any],
        stop: threading.Event,
        drains: bool,
        report: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.context = context
        self.settings = settings
        self.stop = stop
        self.drains = drains
        self.report = report
        self.run_id = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.retested = os.path.join(settings["directory"], RETESTED)
        self.counts = {PASSED: 0, SHORT: 0, NOT_MEASURED: 0}
        self.runner = Runner(
            context, settings, stop, settings["wait"] * 60.0, lambda found: report({"progress": found})
        )

    def run(self, hosts: Sequence[str] = ()) -> int:
        """Measure all nodes and return the exit code. `hosts`: NodeNames; empty for all nodes with GPUs."""
        self.clean_up()
        found = nodes_of.gpu_nodes(self.context, hosts)
        for name in sorted(set(hosts) - {node.name for node in found}):
            self.note((name,), NOT_MEASURED, why="slurmctld knows no GPUs of this node")
        passed = self.check_nodes(found)
        if self.settings.get("between_nodes") is not None and not self.stop.is_set():
            self.check_pairs(passed)
        code = SOME_FALL_SHORT if self.counts[SHORT] else SOME_NOT_MEASURED if self.counts[NOT_MEASURED] else ALL_PASSED
        if not self.stop.is_set():
            self.write({"nodes": [], "end": True, "exit_code": code, "drains": self.drains, "counts": self.counts})
        history.prune(self.settings["directory"], self.settings["keep"])
        return code

    def clean_up(self) -> None:
        """Remove what a killed check has left: its jobs, its reservation, and nodes that it had resumed."""
        cancel_leftovers(self.context)
        if nodes_of.is_reserved(self.context):
            nodes_of.give_back(self.context, json_objects.read(self.retested))
        if os.path.exists(self.retested):
            os.unlink(self.retested)

    def check_nodes(self, found: Sequence[GpuNode]) -> List[GpuNode]:
        """Measure each node by itself, and return the nodes that passed."""
        asked = self.settings.get("partition") or PARTITION
        up, limits = nodes_of.partitions_up(self.context), nodes_of.limits_of(self.settings["min_busbw"])
        measurements: List[PlannedMeasurement] = []
        for node in sorted(found, key=lambda node: "IDLE" not in node.state.flags):
            state, is_retested = node.state, node.can_be_retested and self.drains
            # A node that is powered down to save energy is not started for a check.
            is_away = not state.is_in_service or "POWERED_DOWN" in state.flags
            if is_away and not is_retested:
                why = state.description + (": " + state.reason if state.is_drained else "")
                self.note((node.name,), NOT_MEASURED, node.description, why=why)
            elif not nodes_of.can_run((node,), up, asked):
                self.note((node.name,), NOT_MEASURED, node.description, why=NO_PLACE % asked)
            else:
                minimum = nodes_of.threshold(limits, node.gpus) if node.total > 1 else None
                measurements.append(PlannedMeasurement((node,), asked, minimum, is_reserved=is_retested))
        results = self.measured(measurements)
        self.drain_short([one for one in results if one.falls_short and not one.planned.is_reserved])
        passed = {one.planned.names[0] for one in results if one.measured and not one.falls_short}
        return [node for node in found if node.name in passed]

    def measured(self, measurements: Sequence[PlannedMeasurement]) -> List[Result]:
        """Make measurements; nodes that an earlier check drained are reserved, resumed, and drained if they fail."""
        drained = {planned.names[0]: planned.nodes[0].state.reason for planned in measurements if planned.is_reserved}
        if drained:
            with open(self.retested, "w", encoding="utf-8") as file:
                json.dump(drained, file)
            try:
                nodes_of.reserve(self.context, drained)
            except ResourceFailed as error:
                for name in drained:
                    self.note((name,), NOT_MEASURED, why="the reservation failed: %s" % error)
                os.unlink(self.retested)
                measurements, drained = [planned for planned in measurements if not planned.is_reserved], {}
        results: List[Result] = []

        def take(result: Result) -> None:
            results.append(result)
            name, is_retested = result.planned.names[0], result.planned.is_reserved
            if is_retested and result.falls_short:
                drained[name] = nodes_of.reason_of(reason_for(result))
                self.note_result(result, STILL)
            elif is_retested and result.measured:
                drained.pop(name, None)
                self.note_result(result, BACK)
            elif not result.falls_short:
                self.note_result(result)

        try:
            self.runner.measure(measurements, take)
        finally:
            if any(planned.is_reserved for planned in measurements):
                nodes_of.give_back(self.context, drained)
                os.unlink(self.retested)
        return results

    def drain_short(self, short: Sequence[Result]) -> None:
        """Drain the nodes that fall short, unless they are most of the measured nodes: then the cause is elsewhere."""
        measured = self.counts[PASSED] + len(short)
        are_most = len(short) > 1 and len(short) * 2 > measured
        for result in short:
            if not self.drains or self.stop.is_set():
                self.note_result(result)
            elif are_most:
                self.note_result(result, remark="not drained: %d of %d nodes fall short" % (len(short), measured))
            else:
                complaint = self.drain(result.planned.names[0], reason_for(result))
                self.note_result(
                    result, "" if complaint else DRAINED, "not drained: %s" % complaint if complaint else ""
                )

    def drain(self, name: str, reason: str) -> str:
        """Drain a node, and return why it was not drained; empty if it was."""
        try:
            return nodes_of.drain(self.context, name, reason)
        except ResourceFailed as error:
            return str(error)

    def check_pairs(self, passed: Sequence[GpuNode]) -> None:
        """Measure pairs of equal nodes, and drain the nodes that cause bad pairs."""
        alike: Dict[Tuple[Tuple[str, int], ...], List[str]] = {}
        for node in passed:
            alike.setdefault(tuple(node.gpus.items()), []).append(node.name)
        by_name = {node.name: node for node in passed}
        results = self.measured_pairs([pair for names in alike.values() for pair in pairs_of.ring(names)], by_name)

        def may_pair(one: str, other: str) -> bool:
            return by_name[one].gpus == by_name[other].gpus

        further = pairs_of.further_pairs(pair_results(results), may_pair)
        results.update(self.measured_pairs(further.values(), by_name))
        found = pair_results(results)
        guilty = pairs_of.culprits(found)
        for pair in found.bad:
            blamed = [name for name in pair if name in guilty]
            remark = "the cause is %s" % " and ".join(blamed) if blamed else "it is unknown which node is the cause"
            self.note_result(results[pair], remark=remark)
        for name in guilty if self.drains and not self.stop.is_set() else ():
            pair = next(pair for pair in found.bad if name in pair)
            partner, gpus = next(other for other in pair if other != name), by_name[name].description
            complaint = self.drain(name, "all_reduce with %s %s (%s)" % (partner, results[pair].why, gpus))
            self.note((name,), SHORT, gpus, why="falls short with several partners",
                      action="" if complaint else DRAINED, remark=complaint)  # fmt: skip

    def measured_pairs(
        self, pairs: Iterable[pairs_of.Pair], by_name: Mapping[str, GpuNode]
    ) -> Dict[pairs_of.Pair, Result]:
        """Measure pairs of nodes, and return the results."""
        asked = self.settings.get("partition") or PARTITION
        up, limits = nodes_of.partitions_up(self.context), nodes_of.limits_of(self.settings["between_nodes"])
        both = [(by_name[one], by_name[other]) for one, other in pairs]
        made: List[Result] = []
        self.runner.measure(
            [
                PlannedMeasurement(nodes, asked, nodes_of.threshold(limits, nodes[0].gpus))
                for nodes in both
                if nodes_of.can_run(nodes, up, asked)
            ],
            made.append,
        )
        for result in made:
            if not result.falls_short:
                self.note_result(result)
        return {(one.planned.names[0], one.planned.names[1]): one for one in made}

    def note_result(self, result: Result, action: str = "", remark: str = "") -> None:
        """Record a measurement. `action`: `DRAINED`, `BACK` or `STILL`; empty for nothing."""
        measured, first = result.measured, result.planned.first
        outcome = NOT_MEASURED if measured is None else SHORT if result.why else PASSED
        why = result.why if measured is None or not result.why else "all_reduce " + result.why
        if first and measured is None:
            why = "%s, after a first measurement of %.1f GB/s" % (why, first.busbw)
        figures: Dict[str, Any] = {"wanted": result.planned.minimum, "seconds": round(result.seconds, 1)}
        if measured:
            figures.update(busbw=measured.busbw, average=measured.average, size=measured.size, wrong=measured.wrong,
                           checked=measured.checked)  # fmt: skip
        if first:
            figures["first_busbw"] = first.busbw
        gpus = result.planned.nodes[0].description
        self.note(result.planned.names, outcome, gpus, why=why, action=action, remark=remark, figures=figures)

    def note(
        self,
        names: Sequence[str],
        outcome: str,
        gpus: str = "",
        *,
        why: str = "",
        action: str = "",
        remark: str = "",
        figures: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Count and record an outcome (`PASSED`, `SHORT`, `NOT_MEASURED`) of a node, or a pair.

        `gpus`: as `a100 x4`. `action`: `DRAINED`, `BACK`, `STILL`, or empty. `figures`: by the history's keys.
        """
        self.counts[outcome] += 1
        self.write({"nodes": list(names), "outcome": outcome, "gpus": gpus, "why": why, "action": action,
                   "remark": remark, **(figures or {})})  # fmt: skip

    def write(self, entry: Mapping[str, Any]) -> None:
        """Write an entry into the history, and report it."""
        whole = {"run": self.run_id, "time": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), **entry}
        history.add(self.settings["directory"], whole)
        self.report(whole)


def pair_results(results: Mapping[pairs_of.Pair, Result]) -> pairs_of.PairResults:
    """Which pairs passed, and which fall short; one that was not measured is in neither."""
    good = tuple(pair for pair, one in results.items() if one.measured and not one.falls_short)
    return pairs_of.PairResults(good, tuple(pair for pair, one in results.items() if one.falls_short))


def reason_for(result: Result) -> str:
    """Why a node is drained, as in `all_reduce 98.2 GB/s, wanted 120 (a100 x4)`."""
    return "all_reduce %s (%s)" % (result.why, result.planned.nodes[0].description)
