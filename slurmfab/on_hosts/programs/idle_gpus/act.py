"""Mails the users of jobs whose GPUs are idle on all their nodes, and ends these jobs if the cluster file says so.

A timer runs it on the primary controller as the slurm user. A job is ended only if it was mailed, or its note was
there, for the time of grace, and its GPUs were idle all that time. What was done is in the journal, and in the job's
AdminComment, which slurmdbd keeps.
"""

from __future__ import annotations

import json
import time
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.amounts import number_of
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.programs import replaced_file, starting
from slurmfab.on_hosts.programs.idle_gpus import notes
from slurmfab.on_hosts.programs.starting import DAMAGED, log

OLDEST = 600.0  # seconds since each node has looked; a node repeats its note every 240 s

FIELDS = (
    "JobID", "State", "UserName", "Account", "QOS", "Partition", "NumNodes", "BatchFlag", "Requeue", "HetJobID",
    "admin_comment",
)  # fmt: skip
"""Fields of `Holder`, as named by squeue(1), --Format."""

NOTHING, REQUEUE, CANCEL = "nothing", "requeue", "cancel"
DONE = {REQUEUE: "requeued", CANCEL: "cancelled"}


class Holder(NamedTuple):
    """A running job with a note."""

    number: str
    user: str
    account: str
    qos: str
    partition: str
    nodes: int
    can_requeue: bool  # whether Slurm would run it again
    is_part: bool  # whether it is a part of a heterogeneous job
    note: notes.Note

    def is_spared(self, wanted: Mapping[str, Any]) -> bool:
        """Whether the cluster file excepts it."""
        if {self.user, self.account, self.qos} & set(wanted["spare"]):
            return True
        return bool(wanted["partitions"]) and self.partition not in wanted["partitions"]


def main(settings: str) -> int:
    """Look at all jobs once.

    `settings`: path of a JSON file: `after` and `grace` (seconds), `mail` (whether to mail users), `then` (`nothing`,
    `requeue` or `cancel`), `spare` (users, accounts and QOS), `partitions` (empty for all), `state` (path of the file
    that keeps when users were told). Returns the exit code: 1 if slurmctld did not answer, or mail could not be sent.
    """
    wanted = starting.begin(settings)
    if "after" not in wanted:
        return log(DAMAGED % settings)
    known = json_objects.read(wanted["state"])
    policy = Policy(Context(), wanted, {job: int(when) for job, when in known.items() if isinstance(when, int)})
    try:
        policy.look(time.time())
    except ResourceFailed as error:
        policy.failures += log(str(error))
    replaced_file.write(wanted["state"], json.dumps(policy.told, sort_keys=True) + "\n")
    return 1 if policy.failures else 0


def holders(context: Context) -> Iterator[Holder]:
    """The running jobs that a node has noted. Raises ResourceFailed if slurmctld does not answer."""
    for row in commands.jobs(FIELDS, "--states=RUNNING").ask(context):
        number, _, user, account, qos, partition, nodes, batch, requeue, whole, comment = (one.strip() for one in row)
        note = notes.Note.read(comment)
        if (note.nodes or note.text) and number.isdecimal() and number_of(nodes) is not None:
            is_part = bool(number_of(whole))
            can_requeue = batch == "1" and requeue == "1"
            yield Holder(number, user, account, qos, partition, int(nodes), can_requeue, is_part, note)


class Policy:
    """What is done about jobs with idle GPUs: the settings (see `main`), and when each user was told."""

    def __init__(self, context: Context, wanted: Mapping[str, Any], told: Dict[str, int]) -> None:
        self.context, self.wanted, self.told, self.failures = context, wanted, told, 0

    def look(self, now: float) -> None:
        """Look at all jobs. Raises ResourceFailed if slurmctld does not answer."""
        there = [*holders(self.context)]
        numbers = {job.number for job in there}
        self.told = {job: when for job, when in self.told.items() if job in numbers}
        for job in there:
            try:
                self.judge(job, now)
            except ResourceFailed as error:
                self.failures += log("job %s of %s: %s" % (job.number, job.user, error))

    def judge(self, job: Holder, now: float) -> None:
        """Tell the user of a job, end it, or forget what was told if it works again; ResourceFailed of slurmctld."""
        since = job.note.since(job.nodes, now, OLDEST)
        if since is None or now - since < self.wanted["after"]:
            self.forget(job)
        elif not job.is_spared(self.wanted):
            told = self.told.get(job.number)
            if told is None or told < since:
                self.tell(job, since, now)
            elif now - told >= self.wanted["grace"] and self.ending(job):
                self.end(job, since, now)

    def forget(self, job: Holder) -> None:
        """Take the sentence away from a job that works again."""
        self.told.pop(job.number, None)
        if job.note.text:
            self.note(job.number, "")
            log("job %s of %s uses its GPUs again" % (job.number, job.user))

    def ending(self, job: Holder) -> str:
        """How a job would be ended: `requeue`, `cancel`, or empty."""
        then = str(self.wanted["then"])
        if then == NOTHING or job.is_part or (then == REQUEUE and not job.can_requeue):
            return ""
        return then

    def tell(self, job: Holder, since: int, now: float) -> None:
        """Note, and mail, that a job's GPUs are idle and what will be done."""
        ending, text = self.ending(job), "idle since %s" % notes.moment(since)
        if ending:
            text += "; %s after %s unless it uses them" % (DONE[ending], notes.moment(now + self.wanted["grace"]))
        self.note(job.number, text)
        self.told[job.number] = int(now)
        log("job %s of %s: its GPUs are %s" % (job.number, job.user, text))
        if self.wanted["mail"]:
            self.mail(job, text)

    def mail(self, job: Holder, text: str) -> None:
        """Mail the user of a job by what slurmctld uses for that (slurm.conf(5), MailProg)."""
        program = next(
            (line.partition("=")[2].strip() for line in self.context.must(commands.SHOW_CONFIG).splitlines()
             if line.startswith("MailProg ")), "",
        )  # fmt: skip
        body = "The GPUs of your job %s do nothing: %s.\n\nPlease end it with: scancel %s\n" % (
            job.number, text, job.number
        )  # fmt: skip
        subject = "Slurm Job_id=%s: its GPUs are idle" % job.number
        done = self.context.run([program, "-s", subject, job.user], stdin=body.encode(), seconds=60)
        if done.returncode:
            why = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            self.failures += log(
                "mail to %s failed: %s" % (job.user, why[0] if why else "exit code %d" % done.returncode)
            )

    def end(self, job: Holder, since: int, now: float) -> None:
        """End a job, if its note still says what it said. Raises ResourceFailed if slurmctld refuses."""
        present = notes.of_job(self.context, job.number)
        if present is None or present.since(job.nodes, now, OLDEST) != since:
            return
        ending = self.ending(job)
        text = "%s at %s, since its GPUs were idle from %s on" % (DONE[ending], notes.moment(now), notes.moment(since))
        notes.write(self.context, job.number, present._replace(text=text, nodes=()))
        self.context.must(commands.requeue(job.number) if ending == REQUEUE else commands.cancel([job.number]))
        self.told.pop(job.number, None)
        log("job %s of %s was %s" % (job.number, job.user, text))

    def note(self, job: str, text: str) -> None:
        """Change the sentence of a job, and nothing that its nodes have written meanwhile."""
        present: Optional[notes.Note] = notes.of_job(self.context, job)
        if present is not None:
            notes.write(self.context, job, present._replace(text=text))
