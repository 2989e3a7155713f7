"""The command `slint`: is a submit script right for this cluster, and what should it say instead?"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import subprocess
import sys
from typing import (
    Annotated,
    Any,
    Dict,
    FrozenSet,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypedDict,
)

from slurmfab.on_hosts.programs.user_tools import (
    asking,
    cluster,
    lint_cluster,
    lint_programs,
    lint_text,
    sbatch_options,
    settings,
    submit_script,
    wanted,
)
from slurmfab.on_hosts.programs.user_tools.asking import Silent
from slurmfab.on_hosts.programs.user_tools.cluster import Cluster
from slurmfab.on_hosts.programs.user_tools.findings import ERROR, HINT, WARNING, Finding, clean, error, hint
from slurmfab.on_hosts.programs.user_tools.sbatch_options import Verdict

STDIN = "-"
MOST_FINDINGS = 100
TEST_SECONDS = 20.0
HOST_SECONDS = 20.0
USAGE_ERROR = 2
OVERRIDING = (
    "SBATCH_PARTITION", "SBATCH_ACCOUNT", "SBATCH_QOS", "SBATCH_TIMELIMIT", "SBATCH_GRES", "SBATCH_GPUS",
    "SBATCH_CONSTRAINT", "SBATCH_MEM_PER_CPU", "SBATCH_MEM_PER_NODE",
)  # fmt: skip
"""Variables of users that surprise them most."""

NOT_FOR_SBATCH = frozenset(
    ("late", "limit", "misspelt", "module", "nodes", "path", "program", "shebang", "slurm", "srun", "time", "variable")
)
"""Rules about what sbatch takes, although the job then waits for ever, fails or gets other resources."""

COLOURS = {ERROR: "31", WARNING: "33", HINT: "36"}
DESCRIPTION = """\
Check submit scripts against this cluster: partitions, time, memory, CPUs, GPUs, accounts, QOS and their limits, files,
modules, and the form of the script itself. Nothing of a script is run. The last line is what sbatch --test-only says,
which submits nothing.
"""
EPILOG = """\
Exit codes: 0 no errors (there may be warnings and hints), 1 errors, or Slurm does not answer, 2 wrong usage, or a file
that cannot be read.

  slint job.sh
  slint --json job.sh | jq .
"""


class ScriptJson(TypedDict):
    """A script and what was found."""

    path: str  # as the user wrote it
    errors: int  # how many errors there are
    warnings: int  # how many warnings
    findings: List[Annotated[Dict[str, Any], Finding]]  # in the order of their lines
    sbatch: Optional[Annotated[Dict[str, Any], Verdict]]  # what sbatch says; null if it was not asked


class SlintJson(TypedDict):
    """What `slint` found."""

    version: int  # of this format: 1
    files: List[ScriptJson]  # the scripts


class Checked(NamedTuple):
    """A script and what was found."""

    path: str  # as the user wrote it
    findings: Tuple[Finding, ...]  # in the order of their lines
    verdict: Optional[Verdict]  # what sbatch says; `None` if it was not asked

    @property
    def errors(self) -> int:
        """The number of errors; one if sbatch refuses what nothing else was found in."""
        found = sum(one.severity == ERROR for one in self.findings)
        return max(found, int(self.verdict is not None and not self.verdict.accepted))

    @property
    def data(self) -> ScriptJson:
        """For JSON."""
        return {
            "path": self.path,
            "errors": self.errors,
            "warnings": sum(one.severity == WARNING for one in self.findings),
            "findings": [one.data for one in self.findings],
            "sbatch": self.verdict.data if self.verdict else None,
        }


class Surroundings(NamedTuple):
    """What scripts are checked against."""

    cluster: Optional[Cluster]  # what Slurm says; `None` if it does not answer
    options: FrozenSet[str]  # further options of sbatch, such as those of plugins
    notes: Tuple[Finding, ...]  # what could not be asked
    host: lint_text.Host  # what this host has
    here: str  # the directory from which scripts are submitted


def main(words: Sequence[str]) -> int:
    """Check scripts. Returns the exit code, as told by --help."""
    parser = argparse.ArgumentParser(
        "slint", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="+", metavar="JOB.sh", help="a submit script; - for standard input")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    try:
        asked = parser.parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    contents: List[Tuple[str, bytes]] = []
    for path in asked.scripts:
        try:
            contents.append((path, content_of(path)))
        except OSError as problem:
            print("slint: %s: %s" % (clean(path), problem.strerror or problem), file=sys.stderr)  # noqa: T201
            return USAGE_ERROR
    around = surroundings()
    checked = [check(path, content, around) for path, content in contents]
    if asked.json:
        told: SlintJson = {"version": 1, "files": [one.data for one in checked]}
        sys.stdout.write(json.dumps(told, indent=1) + "\n")
    else:
        sys.stdout.write("".join(line + "\n" for one in checked for line in lines(one, has_colours())))
    return int(any(one.errors for one in checked))


def content_of(path: str) -> bytes:
    """A file's first bytes, one more than Slurm takes of a script. Raises OSError if it cannot be read."""
    if path == STDIN:
        return sys.stdin.buffer.read(submit_script.MOST_BYTES + 1)
    with open(path, "rb") as file:
        return file.read(submit_script.MOST_BYTES + 1)


def has_colours() -> bool:
    """Whether standard output is a terminal that shows colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def surroundings() -> Surroundings:
    """Ask Slurm and this host."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    asked = {
        "nodes": asking.NODES,
        "partitions": asking.ALL_PARTITIONS,
        "config": asking.CONFIG,
        "help": asking.SBATCH_HELP,
    }
    ours = settings.read()
    if ours.get("accounting", True):
        rows = asking.associations_question(user, ours.get("cluster", ""))
        asked.update(associations=rows, qos=asking.QOS, use=asking.use_question(user))
    answers = asking.ask(asked)
    options = frozenset(re.findall(r"--([a-z][a-z0-9-]+)", answers["help"].text))
    notes: List[Finding] = []
    found = None
    try:
        found = cluster.read(answers, user, notes)
    except Silent as silent:
        notes.append(error(0, "slurm", "%s Nothing was compared with the cluster." % silent))
    notes += in_environment(os.environ)
    return Surroundings(found, options, tuple(notes), lint_text.Host(), os.getcwd())


def in_environment(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield variables, of these, that count instead of what a script says (sbatch(1), INPUT ENVIRONMENT VARIABLES)."""
    for name in OVERRIDING:
        if name in variables:
            text = "in your shell %s is %s, which counts instead of what the script says" % (name, variables[name])
            yield hint(0, "environment", text, "unset " + name)


def check(path: str, content: bytes, around: Surroundings) -> Checked:
    """Check one script."""
    script = submit_script.read(content, around.options)
    found = [*script.findings, *lint_text.shebang(script, around.host), *lint_text.bashisms(script, around.host)]
    user = around.cluster.user if around.cluster else pwd.getpwuid(os.geteuid()).pw_name
    for job in script.jobs:
        asked, wrong = wanted.read(job)
        found += [*wrong, *lint_programs.check_paths(asked, around.here, user)]
        if around.cluster:
            found += [*lint_cluster.check(asked, around.cluster), *releases(job, around.cluster.version)]
        if len(script.jobs) == 1:
            start = os.path.join(around.here, asked.value("chdir"))
            found += [*lint_text.sruns(script, asked), *lint_programs.check(script, start, around.host)]
            found += lint_programs.conda(script)
    loaded = lint_text.modules(script)
    if loaded:
        found += lint_text.unknown_modules(loaded, modules())
    kinds = lint_programs.mpi_kinds(script) if around.cluster else []
    if kinds:
        found += lint_programs.unknown_kinds(kinds, shown_by(asking.MPI_KINDS)[1])
    found += around.notes
    answer = test(content) if around.cluster else None
    if answer and answer.accepted:
        found = [one._replace(severity=WARNING) if is_for_sbatch(one) else one for one in found]
    ordered = sorted(dict.fromkeys(found), key=lambda one: one.line)
    return Checked(clean(path), tuple(ordered[:MOST_FINDINGS]), answer)


def is_for_sbatch(one: Finding) -> bool:
    """Whether something is an error only if sbatch says so: a site's own rules may put other values in a job."""
    return one.severity == ERROR and one.rule not in NOT_FOR_SBATCH


def releases(job: Sequence[submit_script.Setting], version: str) -> Iterator[Finding]:
    """Yield options that are newer than this Slurm."""
    for setting in job:
        since = sbatch_options.SINCE.get(setting.name, "")
        if version and since > version:
            text = "--%s came with Slurm %s, and this cluster has %s" % (setting.name, since, version)
            yield error(setting.line, "release", text)


def modules() -> Optional[FrozenSet[str]]:
    """The modules that a login shell of the user finds; `None` if it has no command `module`."""
    code, shown = shown_by(asking.MODULES)
    return None if code == asking.NOT_FOUND else lint_text.available_modules(shown)


def shown_by(question: asking.Question) -> Tuple[int, str]:
    """Exit code and output of a command that asks about this host."""
    return run(question.argv, question.env, b"", HOST_SECONDS)


def test(content: bytes) -> Verdict:
    """Ask sbatch about a script, without submitting it."""
    argv, env = asking.TEST_ONLY
    return sbatch_options.verdict(*run(argv, env, content[: submit_script.MOST_BYTES], TEST_SECONDS))


def run(argv: Sequence[str], env: Mapping[str, str], given: bytes, seconds: float) -> Tuple[int, str]:
    """Run a command with further variables for at most so many seconds: its exit code and all that it printed."""
    try:
        done = subprocess.run(
            argv, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False,
            env=asking.environment(env),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return sbatch_options.NO_ANSWER, "no answer within %.0f s" % seconds
    except OSError as problem:
        return asking.NOT_FOUND, "%s: %s" % (argv[0], problem.strerror)
    return done.returncode, done.stdout[: 1 << 20].decode("utf-8", "replace")


def lines(checked: Checked, colours: bool) -> Iterator[str]:
    """Yield the lines for people."""
    for one in checked.findings:
        place = "%s:%d" % (checked.path, one.line) if one.line else checked.path
        severity = "\033[%sm%s\033[0m" % (COLOURS[one.severity], one.severity) if colours else one.severity
        instead = "; write instead: %s" % clean(one.instead) if one.instead else ""
        yield "%s: %s: %s%s" % (place, severity, clean(one.text, 2 * len(one.text) + 1), instead)
    if checked.verdict:
        yield "%s: sbatch --test-only %s" % (checked.path, checked.verdict.text)
    elif not checked.errors:
        yield "%s: no errors" % checked.path
