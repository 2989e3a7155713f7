"""One check of the GPUs of a cluster: each node, then pairs of nodes, then what becomes of those that fall short."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from slurmfab.agent.resource import Context, ResourceFailed
from slurmfab.programs import gpu_check_history as history
from slurmfab.programs import gpu_check_nodes as nodes_of
from slurmfab.programs import gpu_check_pairs as pairs_of
from slurmfab.programs.gpu_check_jobs import Runner
from slurmfab.programs.gpu_check_nodes import GpuNode
from slurmfab.programs.gpu_check_queue import cancel_leftovers
from slurmfab.programs.gpu_check_results import Result, Wish

PASSED, SHORT, NOT_MEASURED = "passed", "falls short", "not measured"
DRAINED, BACK, STILL = "drained", "back in service", "stays drained"
ALL_WELL, SOME_FALL_SHORT, SOME_NOT_MEASURED = 0, 1, 3
"""Exit codes."""

TRIAL = "trial.json"
"""Names the nodes that are resumed for this check alone, with their reasons, for the next one if this is killed."""


class Check:
    """A run.

    Args:
        context: runs Slurm's commands.
        settings: see `slurmfab.programs.gpu_check`.
        stop: set by whoever wants it to end.
        drains: whether nodes go out of service, and come back.
        heard: told each entry of the history.
    """

    def __init__(
        self,
        context: Context,
        settings: Mapping[str, Any],
        stop: threading.Event,
        drains: bool,
        heard: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.context = context
        self.settings = settings
        self.stop = stop
        self.drains = drains
        self.heard = heard
        self.run_id = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.counts = {PASSED: 0, SHORT: 0, NOT_MEASURED: 0}
        self.runner = Runner(context, settings, stop, settings["wait"] * 60.0)

    def run(self, hosts: Sequence[str] = ()) -> int:
        """Measure, decide, and return the exit code.

        Args:
            hosts: only these; all nodes with GPUs where none is named.

        Raises:
            ResourceFailed: slurmctld does not answer.
        """
        self.heal()
        found = nodes_of.gpu_nodes(self.context, hosts)
        for name in sorted(set(hosts) - {node.name for node in found}):
            self.note((name,), NOT_MEASURED, why="slurmctld knows no GPUs there")
        well = self.check_nodes(found)
        if self.settings.get("between_nodes") is not None and not self.stop.is_set():
            self.check_pairs(well)
        code = SOME_FALL_SHORT if self.counts[SHORT] else SOME_NOT_MEASURED if self.counts[NOT_MEASURED] else ALL_WELL
        if not self.stop.is_set():
            self.keep({"nodes": [], "end": True, "exit_code": code, "drains": self.drains, "counts": self.counts})
        history.prune(self.settings["directory"], self.settings["keep"])
        return code

    def heal(self) -> None:
        """Put right what a check has left that was killed: its jobs, and nodes that were resumed for it."""
        cancel_leftovers(self.context)
        path = os.path.join(self.settings["directory"], TRIAL)
        if nodes_of.is_reserved(self.context):
            try:
                with open(path, encoding="utf-8") as file:
                    left = json.load(file)
            except (OSError, ValueError):
                left = {}
            nodes_of.give_back(self.context, left)
        if os.path.exists(path):
            os.unlink(path)

    def check_nodes(self, found: Sequence[GpuNode]) -> List[GpuNode]:
        """Measure each node by itself, and return those that are as wanted and in service."""
        up = nodes_of.partitions_up(self.context)
        limits = nodes_of.limits_of(self.settings["min_busbw"])
        wishes: List[Wish] = []
        for node in sorted(found, key=lambda node: "IDLE" not in node.state.flags):
            partition = nodes_of.partition_for((node,), up, self.settings.get("partition") or "")
            is_shut = node.is_shut_by_us and self.drains
            # A node that is powered down to save energy is not started for this.
            is_away = not node.state.is_in_service or "POWERED_DOWN" in node.state.flags
            if is_away and not is_shut:
                why = "%s: %s" % (node.state.words, node.state.reason) if node.state.is_drained else node.state.words
                self.note((node.name,), NOT_MEASURED, node.words, why=why)
            elif not partition:
                self.note((node.name,), NOT_MEASURED, node.words, why="no partition that is up has it")
            else:
                minimum = nodes_of.threshold(limits, node.gpus) if node.total > 1 else None
                wishes.append(Wish((node,), partition, minimum, is_reserved=is_shut))
        results = self.measured(wishes)
        self.judge([one for one in results if one.falls_short and not one.wish.is_reserved])
        well = {one.wish.names[0] for one in results if one.measured and not one.falls_short}
        return [node for node in found if node.name in well]

    def measured(self, wishes: Sequence[Wish]) -> List[Result]:
        """Make measurements, with nodes that an earlier check has drained kept for it and given back in the end."""
        shut = {wish.names[0]: wish.nodes[0].state.reason for wish in wishes if wish.is_reserved}
        if shut:
            path = os.path.join(self.settings["directory"], TRIAL)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(shut, file)
            try:
                nodes_of.reserve(self.context, shut)
            except ResourceFailed as error:
                for name in shut:
                    self.note((name,), NOT_MEASURED, why="it cannot be reserved: %s" % error)
                os.unlink(path)
                wishes, shut = [wish for wish in wishes if not wish.is_reserved], {}
        results: List[Result] = []

        def heard(result: Result) -> None:
            results.append(result)
            name = result.wish.names[0]
            if result.wish.is_reserved and result.measured and not result.falls_short:
                shut.pop(name, None)
                self.note_result(result, BACK)
            elif result.wish.is_reserved and result.falls_short:
                shut[name] = nodes_of.reason_of(reason_for(result))
                self.note_result(result, STILL)
            elif not result.falls_short:
                self.note_result(result)

        try:
            self.runner.measure(wishes, heard)
        finally:
            if any(wish.is_reserved for wish in wishes):
                nodes_of.give_back(self.context, shut)
                os.unlink(os.path.join(self.settings["directory"], TRIAL))
        return results

    def judge(self, short: Sequence[Result]) -> None:
        """Drain the nodes that fall short; none when they are most of those measured, for then it is not theirs."""
        measured = self.counts[PASSED] + len(short)
        are_most = len(short) > 1 and len(short) * 2 > measured
        for result in short:
            if not self.drains or self.stop.is_set():
                self.note_result(result)
            elif are_most:
                self.note_result(result, remark="not drained: so do %d of %d" % (len(short), measured))
            else:
                self.shut(result)

    def shut(self, result: Result) -> None:
        """Drain a node that falls short."""
        try:
            complaint = nodes_of.drain(self.context, result.wish.names[0], reason_for(result))
        except ResourceFailed as error:
            complaint = str(error)
        self.note_result(result, "" if complaint else DRAINED, "not drained: %s" % complaint if complaint else "")

    def check_pairs(self, well: Sequence[GpuNode]) -> None:
        """Measure what is between nodes that are alike, and drain those that are to blame."""
        alike: Dict[Tuple[Tuple[str, int], ...], List[GpuNode]] = {}
        for node in well:
            alike.setdefault(tuple(node.gpus.items()), []).append(node)
        by_name = {node.name: node for node in well}
        found = pairs_of.Found((), ())
        results: Dict[pairs_of.Pair, Result] = {}
        for group in alike.values():
            found = self.more(found, results, pairs_of.ring([node.name for node in group]), by_name)

        def may_pair(one: str, other: str) -> bool:
            return by_name[one].gpus == by_name[other].gpus

        found = self.more(found, results, pairs_of.further(found, may_pair).values(), by_name)
        guilty = pairs_of.culprits(found)
        for pair in found.bad:
            blamed = [name for name in pair if name in guilty]
            remark = "it is %s" % " and ".join(blamed) if blamed else "which of them it is cannot be told"
            self.note_result(results[pair], remark=remark)
        for name in guilty if self.drains and not self.stop.is_set() else ():
            pair = next(pair for pair in found.bad if name in pair)
            partner = next(other for other in pair if other != name)
            self.shut_for_pair(name, partner, results[pair])

    def shut_for_pair(self, name: str, partner: str, result: Result) -> None:
        """Drain a node that falls short with several partners."""
        text = "all_reduce with %s %s (%s)" % (partner, result.why, result.wish.nodes[0].words)
        try:
            complaint = nodes_of.drain(self.context, name, text)
        except ResourceFailed as error:
            complaint = str(error)
        self.note((name,), SHORT, result.wish.nodes[0].words, why="falls short with several partners",
                  action="" if complaint else DRAINED, remark=complaint)  # fmt: skip

    def more(
        self,
        found: pairs_of.Found,
        results: Dict[pairs_of.Pair, Result],
        pairs: Iterable[pairs_of.Pair],
        by_name: Mapping[str, GpuNode],
    ) -> pairs_of.Found:
        """Measure pairs, and return what is known with them."""
        up, limits = nodes_of.partitions_up(self.context), nodes_of.limits_of(self.settings["between_nodes"])
        wishes = []
        for pair in pairs:
            both = tuple(by_name[name] for name in pair)
            partition = nodes_of.partition_for(both, up, self.settings.get("partition") or "")
            if partition:
                wishes.append(Wish(both, partition, nodes_of.threshold(limits, both[0].gpus)))
        made: List[Result] = []
        self.runner.measure(wishes, made.append)
        for result in made:
            results[(result.wish.names[0], result.wish.names[1])] = result
            if not result.falls_short:
                self.note_result(result)
        good = tuple((one.wish.names[0], one.wish.names[1]) for one in made if one.measured and not one.falls_short)
        bad = tuple((one.wish.names[0], one.wish.names[1]) for one in made if one.falls_short)
        return pairs_of.Found((*found.good, *good), (*found.bad, *bad))

    def note_result(self, result: Result, action: str = "", remark: str = "") -> None:
        """Keep what became of a measurement."""
        measured, first = result.measured, result.wish.first
        outcome = NOT_MEASURED if measured is None else SHORT if result.why else PASSED
        why = result.why if measured is None or not result.why else "all_reduce " + result.why
        if first and measured is None:
            why = "%s, after a first measurement of %.1f GB/s" % (why, first.busbw)
        figures: Dict[str, Any] = {"wanted": result.wish.minimum, "seconds": round(result.seconds, 1)}
        if measured:
            figures.update(busbw=measured.busbw, average=measured.average, size=measured.size, wrong=measured.wrong,
                           checked=measured.checked)  # fmt: skip
        if first:
            figures["first_busbw"] = first.busbw
        gpus = result.wish.nodes[0].words
        self.note(result.wish.names, outcome, gpus, why=why, action=action, remark=remark, figures=figures)

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
        """Keep an entry, and count it."""
        self.counts[outcome] += 1
        self.keep({"nodes": list(names), "outcome": outcome, "gpus": gpus, "why": why, "action": action,
                   "remark": remark, **(figures or {})})  # fmt: skip

    def keep(self, entry: Mapping[str, Any]) -> None:
        """Write an entry into the history, and tell it."""
        whole = {"run": self.run_id, "time": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()), **entry}
        history.add(self.settings["directory"], whole)
        self.heard(whole)


def reason_for(result: Result) -> str:
    """Why a node is drained, as in `all_reduce 98.2 GB/s, wanted 120 (a100 x4)`."""
    return "all_reduce %s (%s)" % (result.why, result.wish.nodes[0].words)
