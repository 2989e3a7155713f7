"""The command `sstatus`: what is free on the cluster, a user's own jobs, and why they wait."""

from __future__ import annotations

import os
import pwd
import re
import sys
import time
from typing import TYPE_CHECKING, List, Mapping, NamedTuple, Sequence

from slurmfab.on_hosts.programs.user_tools import asking

if TYPE_CHECKING:
    from slurmfab.on_hosts.agent.client.commands import Table
    from slurmfab.on_hosts.agent.nodes.lost_jobs import Open

USAGE = """\
Usage: sstatus [--user NAME] [--json] | sstatus JOB

Shows what is free on the cluster, your jobs and your limits, and why jobs wait. With a job's number: how long it
waited, where it ran, and how it ended.

  --user NAME   the jobs and limits of another user, as far as Slurm shows them to you
  --json        the same as JSON, for programs
  --help        this text
"""
WIDTH = 100
WRONG = 2  # the exit code for wrong arguments

_JOB = r"\d+(?:_\d+)?"
_USER = r"[A-Za-z0-9_][A-Za-z0-9_.@+$-]{0,255}"


class Options(NamedTuple):
    """What the user wants: whose jobs (empty for their own), and whether as JSON; or the story of one job."""

    user: str = ""
    is_json: bool = False
    job: str = ""


class WrongWords(Exception):
    """Arguments that make no sense; the text says why."""


def main(words: Sequence[str]) -> int:
    """Print the state. Returns the exit code: 2 for wrong arguments."""
    if set(words) & {"-h", "--help"}:
        sys.stdout.write(USAGE)
        return 0
    try:
        options = parsed(words)
        if options.job:
            from slurmfab.on_hosts.programs.user_tools import job_story

            sys.stdout.write("\n".join(job_story.told(options.job)) + "\n")
            return 0
        person = account_of(options.user)
    except WrongWords as wrong:
        sys.stderr.write("sstatus: %s\n%s" % (wrong, USAGE.partition("\n")[0] + "\n"))
        return WRONG
    sys.stdout.write("\n".join(answered(person, is_json=options.is_json)) + "\n")
    return 0


def parsed(words: Sequence[str]) -> Options:
    """The options in the arguments. Raises WrongWords if there is no such option."""
    options, rest = Options(), list(words)
    while rest:
        word, mark, value = rest.pop(0).partition("=")
        if word == "--json" and not mark:
            options = options._replace(is_json=True)
        elif word in ("-u", "--user"):
            if not mark and not rest:
                raise WrongWords("%s needs the name of a user" % word)
            options = options._replace(user=value if mark else rest.pop(0))
        elif re.fullmatch(_JOB, word, re.ASCII) and not (mark or options.job):
            options = options._replace(job=word)
        else:
            raise WrongWords("there is no option %s" % ascii(word))
    if options.job and (options.user or options.is_json):
        raise WrongWords("a job is told alone, as text")
    return options


def account_of(name: str) -> pwd.struct_passwd:
    """The user of this name; without one, the user who runs this. Raises WrongWords if there is no such user."""
    try:
        if not name:
            return pwd.getpwuid(os.getuid())
        if re.fullmatch(_USER, name):
            return pwd.getpwnam(name)
    except KeyError:
        pass
    raise WrongWords("there is no user %s on this host" % (ascii(name) if name else "with UID %d" % os.getuid()))


def answered(user: pwd.struct_passwd, *, is_json: bool) -> List[str]:
    """The lines to print. `is_json`: whether as JSON. Raises Silent if slurmctld does not answer."""
    from slurmfab.on_hosts.programs.user_tools import settings

    ours = settings.read()
    own, table = asking.jobs_of(user.pw_name)
    records, recorded = asking.open_records(user.pw_name)
    ended, of_ended = asking.ended_records(user.pw_name)
    started = asking.Started({
        **({"records": records, "ended": ended} if ours.get("records") else {}),
        "jobs": own,
        "nodes": asking.NODES,
        "partitions": asking.PARTITIONS,
        "use": asking.use_question(user.pw_name),
        "associations": asking.associations_question(user.pw_name, ours.get("cluster", "")),
        "qos": asking.QOS,
    })  # fmt: skip
    # While Slurm answers, Python has the time to read the rest of the program.
    from slurmfab.on_hosts.agent.core.resource import ResourceFailed
    from slurmfab.on_hosts.programs.user_tools import showing, state

    answers = started.answers()
    person = state.Person(user.pw_name, str(user.pw_uid), user.pw_uid == os.getuid())
    try:
        rows = table.rows(answers["jobs"].must)
    except ResourceFailed as error:
        raise asking.Silent(str(error)) from None
    lost = [*forgotten(answers, recorded, rows), *closed(answers, of_ended)]
    found = state.state(person, answers, rows, ours, lost)
    if is_json:
        import json

        return [json.dumps(found.as_json(), indent=2)]
    return showing.lines(found, showing.Paint(sys.stdout), time.time(), width())


def forgotten(answers: Mapping[str, asking.Answer], recorded: Table, rows: Sequence[Sequence[str]]) -> List[Open]:
    """The jobs that slurmdbd has as not ended and slurmctld does not know, which is asked anew about each."""
    from slurmfab.on_hosts.agent.nodes import lost_jobs

    if "records" not in answers or answers["records"].code:
        return []
    told, now = recorded.rows(answers["records"].text), time.time()
    places = [asking.JOB_FIELDS.index(name) for name in ("JobID", "SubmitTime")]
    present = "\n".join("%s|%s|" % (row[places[0]], row[places[1]]) for row in rows)
    suspects = lost_jobs.unknown(told, lost_jobs.known_in(present), now)
    if not suspects:
        return []
    known = asking.ask({"known": asking.Question(lost_jobs.KNOWN)})["known"]
    return [] if known.code else lost_jobs.unknown(told, lost_jobs.known_in(known.text), now)


def closed(answers: Mapping[str, asking.Answer], table: Table) -> List[Open]:
    """The jobs that a crash has lost, and whose records were ended since, by a command or by the controller itself."""
    from slurmfab.on_hosts.agent.nodes import lost_jobs

    if "ended" not in answers or answers["ended"].code:
        return []  # what is not there for want of slurmdbd is told with the limits
    return lost_jobs.commented(table.rows(answers["ended"].text))


def width() -> int:
    """The width of the terminal, or of the text where there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        return WIDTH
