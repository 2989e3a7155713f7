"""The page of JSON outputs, and a JSON schema of each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from reference.description import all_tasks
from reference.json_schemas import Maker
from reference.markdown import WRITTEN, anchor, code, marked, table, text_of
from slurmfab.commands.accept import listing
from slurmfab.commands.accept import results as accepted
from slurmfab.commands.checks import results as checked
from slurmfab.commands.doctor.finding import Diagnosis
from slurmfab.commands.drift.alarm import Compared
from slurmfab.commands.drill import results as drilled
from slurmfab.commands.explain.explaining import Explanation
from slurmfab.commands.gpu_checks.checking import GpuChecks
from slurmfab.commands.history.listing import History, RecordedRun
from slurmfab.commands.import_cluster.importing import Imported
from slurmfab.commands.logs.showing import Logs
from slurmfab.commands.quickcheck.lines import Summary
from slurmfab.commands.rehearse.verdict import Rehearsal
from slurmfab.commands.remote.putting import PutOnHosts
from slurmfab.commands.remote.running import RanOnHosts
from slurmfab.commands.support_bundle.making import Written
from slurmfab.commands.topology.showing import Proposed
from slurmfab.commands.update.plan import UpdatePlan
from slurmfab.commands.upgrade.plan import UpgradePlan
from slurmfab.commands.usage.showing import Told
from slurmfab.core.engine.commands import PhaseList
from slurmfab.core.engine.report import Report
from slurmfab.core.status.cluster_state import Status
from slurmfab.on_hosts.programs.user_tools.slint import SlintJson
from slurmfab.on_hosts.programs.user_tools.state import SstatusJson

SCHEMAS = "schemas"
"""The folder of the schemas, beside the page."""


class Output(NamedTuple):
    """A JSON output.

    Args:
        name: of its schema.
        title: its heading.
        kind: its type.
        tasks: the tasks that write it; with options, where it is another one without.
    """

    name: str
    title: str
    kind: type
    tasks: tuple[str, ...]


RUNS = (
    "deploy", "plan", "rotate-munge-key", "rotate-jwt-key", "add-node", "remove-node", "replace-node",
    "accept-hardware", "drain", "resume", "reboot", "add-user", "remove-user", "rollback", "restore", "update",
)  # fmt: skip
"""The tasks that compare hosts with the cluster file, or change them."""

OUTPUTS = (
    Output("run", "Runs", Report, RUNS),
    Output("phases", "Phases", PhaseList, ("phases",)),
    Output("update-plan", "Plan of an update", UpdatePlan, ("update --plan",)),
    Output("import", "Import", Imported, ("import",)),
    Output("status", "Status", Status, ("status",)),
    Output("check-cluster", "Checks", checked.Verdict, ("check-cluster",)),
    Output("quickcheck", "Quickcheck", Summary, ("quickcheck",)),
    Output("check-gpus", "GPU checks", GpuChecks, ("check-gpus",)),
    Output("accept", "Acceptance", accepted.Verdict, ("accept",)),
    Output("accept-history", "History of acceptance", listing.History, ("accept --history",)),
    Output("drill", "Drills", drilled.Verdict, ("drill",)),
    Output("drift", "Drift", Compared, ("drift",)),
    Output("logs", "Logs", Logs, ("logs",)),
    Output("explain", "Explanation", Explanation, ("explain",)),
    Output("topology", "Switches", Proposed, ("topology",)),
    Output("rehearsal", "Rehearsal", Rehearsal, ("rehearse",)),
    Output("usage", "Use over time", Told, ("usage",)),
    Output("history", "History", History, ("history",)),
    Output("history-run", "A recorded run", RecordedRun, ("history RUN",)),
    Output("doctor", "Doctor", Diagnosis, ("doctor",)),
    Output("support-bundle", "Support bundle", Written, ("support-bundle",)),
    Output("upgrade-plan", "Plan of an upgrade", UpgradePlan, ("upgrade --plan",)),
    Output("run-on-hosts", "A command on hosts", RanOnHosts, ("run",)),
    Output("put-on-hosts", "A file on hosts", PutOnHosts, ("put",)),
)
"""The JSON outputs of tasks, in their order."""

OF_USERS = (
    Output("sstatus", "For users: sstatus", SstatusJson, ("sstatus",)),
    Output("slint", "For users: slint", SlintJson, ("slint",)),
)
"""Those of commands on the hosts, for the users of the cluster."""

ALL = (*OUTPUTS, *OF_USERS)


@cache
def schema_of(output: Output, *, is_closed: bool = False) -> dict[str, Any]:
    """The JSON schema of an output; see `Maker`."""
    return Maker(is_closed).document(output.kind)


def schemas() -> dict[str, Callable[[], str]]:
    """The schemas as files: their texts by path."""
    return {f"{SCHEMAS}/{one.name}.json": lambda one=one: schema_text(one) for one in ALL}  # type: ignore[misc]


def schema_text(output: Output) -> str:
    """The schema of an output as a file."""
    about = {"title": f"slurmfab: {output.title}"}
    return json.dumps({**about, **schema_of(output)}, indent=1) + "\n"


def page() -> str:
    """The text of the page."""
    return text_of(lines())


def lines() -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (
        "# JSON outputs",
        "",
        f"`--json FILE` writes the results of a task as JSON, `--json -` to standard output. {WRITTEN}",
        "",
        "Every output is an object with `version`, which increases when a key changes its meaning or is removed.",
        "Keys may be added at any time: ignore those that you do not know. Texts that are for people may be reworded.",
        "",
    )
    yield from table(("task", "keys", "schema"), map(row, ALL))
    for output in ALL:
        yield from about(output)


def row(output: Output) -> tuple[str, str, str]:
    """The row of the first table about an output."""
    page = "../user-tools.md" if output in OF_USERS else "tasks.md"
    tasks = ", ".join(f"[{task}]({page}#{anchor(task.split()[0])})" for task in output.tasks)
    return tasks, f"[{output.title}](#{anchor(output.title)})", f"[{output.name}.json]({SCHEMAS}/{output.name}.json)"


def about(output: Output) -> Iterator[str]:
    """Yield the lines about an output: its keys, and those of the objects in it."""
    document = schema_of(output)
    first = str(document["$ref"]).rpartition("/")[2]
    definitions = document["$defs"]
    yield from ("", f"## {output.title}", "", marked(definitions[first]["description"]), "")
    yield from keys(definitions[first])
    for name in in_reading_order(definitions, first)[1:]:
        yield from ("", f"{code(name)}: {marked(definitions[name]['description'])}", "")
        yield from keys(definitions[name])


def in_reading_order(definitions: dict[str, Any], first: str) -> list[str]:
    """The names of objects, each behind the one that it is in."""
    found = [first]
    for name in found:
        inside = json.dumps(definitions[name]).split('"#/$defs/')[1:]
        found += [one for one in dict.fromkeys(text.split('"')[0] for text in inside) if one not in found]
    return found


def keys(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a table of an object's keys."""
    required = schema["required"]
    rows = (
        (code(name), kind(one), marked(one.get("description", "")) + ("" if name in required else " (may be missing)"))
        for name, one in schema["properties"].items()
    )
    yield from table(("key", "type", "meaning"), rows)


def kind(schema: dict[str, Any]) -> str:
    """A type in words: `list of Step`, `text or null`."""
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "null": "null",
    }
    if "$ref" in schema:
        return code(str(schema["$ref"]).rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(map(kind, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(code(str(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}"
    if schema.get("type") == "object":
        return f"object with {kind(schema['additionalProperties'])}"
    return words.get(schema.get("type", ""), "any value")


def tasks_without_schema() -> list[str]:
    """The tasks with `--json` of which this page says nothing."""
    known = {task.split()[0] for output in OUTPUTS for task in output.tasks}
    return [task.name for task in all_tasks() if task.has_json and task.name not in known]
