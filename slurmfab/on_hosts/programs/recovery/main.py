"""The recovery program: a timer on controllers runs it, and after a loss of power it makes the cluster whole.

slurmctld takes back a job whose node has lost it when that node registers, but not within some 20 s of its own start
(BatchStartTimeout and a message's time), and asks nodes again after half an hour. It never takes back an interactive
job that way, and with nodes that sleep it waits for ResumeTimeout as well. A node that has rebooted stays DOWN, and one
with a job that slurmctld had started and not saved, so that it starts it once more, stays drained. It asks no node to
register that it has woken, so that for one whose waking it had not saved it waits until ResumeTimeout.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import time
from contextlib import suppress
from typing import Any, Dict, Iterable, List, Mapping, Set

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core import json_objects
from slurmfab.on_hosts.agent.core.language import ENGLISH
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.nodes import lost_jobs
from slurmfab.on_hosts.agent.nodes.states import NODES_PER_UPDATE, UNDER_WAY, NodeState, records, shown_nodes, state_of
from slurmfab.on_hosts.programs import replaced_file, starting

SETTLED = 30  # seconds after slurmctld's start: the first of a registration at which it takes jobs back are some 20
LOOKS_BACK = 900  # seconds after the start of slurmctld or of a node's slurmd in which jobs are looked at
LISTENS, TRIED = 0.5, 20  # seconds in which a slurmd takes a connection, and how many nodes are tried at a time
REBOOTED = "Node unexpectedly rebooted"  # slurmctld's reason; with ReturnToService=1 it waits for an administrator
STARTED_TWICE = "Duplicate jobid"  # the reason with which it drains a node that has a job which it had not saved yet
SLURMS_OWN = r"({0}|{1}|Not responding)( : ({0}|{1}|Not responding))*".format(REBOOTED, STARTED_TWICE)
DAY, MOST_RETURNS = 86400, 3  # a node that reboots more often in a day has another fault than its power
LOST_LATELY = 7 * DAY  # slurmdbd would count anew since the first lost job, and older ones are not of this loss
SECONDS = 30.0  # time limit of one command
LONG_PROLOG = 300  # seconds after which Slurm ends a Prolog (PrologEpilogTimeout, as slurmfab sets it)
JOBS_AT_ONCE = 200  # how many jobs one sstat is asked about

_SETTING = r"^(\S+)\s+= (.*)$"


def main(memory: str) -> int:
    """Make the cluster whole, on the controller that acts. `memory`: path of a JSON file that a boot may lose."""
    os.environ.update(ENGLISH)
    try:
        return recover(Context(), memory, time.time())
    except ResourceFailed as failed:
        return starting.log(str(failed))


def recover(context: Context, memory: str, now: float) -> int:
    """Resume nodes, have nodes register once more, and end jobs without processes; ResourceFailed if Slurm refuses."""
    acting = [host for _, host, is_up in commands.controllers(ping(context)) if is_up][:1]
    if acting != [socket.gethostname().partition(".")[0]]:
        return 0
    shown = context.must(commands.SHOW_CONFIG, seconds=SECONDS)
    config = dict(re.findall(_SETTING, shown, re.MULTILINE))
    started = commands.moment(config.get("BOOT_TIME", ""))
    if started is None:
        return 0
    remembered = json_objects.read(memory)
    nodes = {one["NodeName"]: one for one in records(shown_nodes(context, SECONDS))}
    states = {name: state_of(one) for name, one in nodes.items()}
    missed = missed_wakings(nodes.values(), states, config, started, now)
    if missed and now - remembered.get("reconfigured", 0.0) > LOOKS_BACK:
        # Each slurmd registers then. Nothing else has a node do so whose boot slurmctld waits for.
        context.must(commands.RECONFIGURE, seconds=SECONDS)
        starting.log("%s answers, and slurmctld, which had not saved its waking, waited for it: reconfigured" % missed)
        remembered["reconfigured"] = now
    if now - started < SETTLED:
        replaced_file.write(memory, json.dumps(remembered))
        return 0
    if config.get("ReturnToService") == "1":
        remembered["returns"] = resume(context, states, remembered.get("returns", {}), now)
    begun = [commands.moment(one.get("SlurmdStartTime", "")) or 0.0 for one in nodes.values()]
    if remembered.get("asked") != started:
        # By the next time slurmctld has ended what it can, each job as its user wants.
        register(context, nodes.values(), states)
        remembered.update(asked=started, told=False, named=[])
    else:
        is_lately = now - max([started, *begun]) < LOOKS_BACK
        if is_lately:
            end_jobs(context, config, nodes.values(), started, now)
        if not remembered.get("told") and (is_lately or now - remembered.get("tried", 0.0) > LOOKS_BACK):
            remembered.update(told=end_lost(context, config, remembered, started, now), tried=now)
    replaced_file.write(memory, json.dumps(remembered))
    return 0


def ping(context: Context) -> str:
    """What `scontrol ping` prints; it fails where no slurmctld answers."""
    return context.run(commands.PING, seconds=SECONDS).stdout.decode(errors="replace")


def missed_wakings(
    nodes: Iterable[Mapping[str, str]],
    states: Mapping[str, NodeState],
    config: Mapping[str, str],
    started: float,
    now: float,
) -> str:
    """A node that slurmctld, which knows nothing of it since its own start, waits for, and whose slurmd listens.

    Empty for none, and where slurm.conf may have changed since that start: a reconfiguration is to bring nothing new.
    """
    waited_for = [
        one
        for one in nodes
        if "POWERING_UP" in states[one["NodeName"]].flags and not commands.moment(one.get("BootTime", ""))
    ]
    if not waited_for or now - started > LOOKS_BACK:
        return ""
    try:
        with os.scandir(os.path.dirname(config.get("SLURM_CONF", ""))) as files:
            if any(file.stat().st_ctime >= started for file in files):
                return ""
    except OSError:
        return ""
    for one in waited_for[:TRIED]:
        with suppress(OSError, ValueError):
            place = one.get("NodeAddr", ""), int(one.get("Port") or config.get("SlurmdPort", ""))
            socket.create_connection(place, LISTENS).close()
            return one["NodeName"]
    return ""


def resume(
    context: Context, states: Mapping[str, NodeState], before: Mapping[str, List[float]], now: float
) -> Dict[str, List[float]]:
    """Resume nodes that answer and are out for their reboot, or a job's second start, alone; when each was of late."""
    own_name = pwd.getpwuid(os.getuid()).pw_name
    returns = {node: [at for at in times if now - at < DAY] for node, times in before.items()}
    for node, state in states.items():
        has_job_twice = state.is_drained and state.reason.startswith(STARTED_TWICE)
        is_out = state.answers and (has_job_twice or ("DOWN" in state.flags and not state.is_drained))
        if not is_out or state.by != own_name or not re.fullmatch(SLURMS_OWN, state.reason):
            continue
        if len(returns.get(node, ())) < MOST_RETURNS:
            # UNDRAIN has it register as well, by which slurmctld ends what it does not know.
            how, why = ("UNDRAIN", "had a job that was started twice") if has_job_twice else ("RESUME", "has rebooted")
            context.must(commands.update_nodes([node], "State=" + how), seconds=SECONDS)
            returns.setdefault(node, []).append(now)
            starting.log("%s %s, and is back in service" % (node, why))
        else:
            what = STARTED_TWICE if has_job_twice else REBOOTED
            reason = "%s more than %d times within a day" % (what, MOST_RETURNS)
            context.must(commands.update_nodes([node], "Reason=" + reason), seconds=SECONDS)
            starting.log("%s: %s; it stays down" % (node, reason))
    return {node: times for node, times in returns.items() if times}


def register(context: Context, nodes: Iterable[Mapping[str, str]], states: Mapping[str, NodeState]) -> None:
    """Have nodes register once more that have booted since a job of theirs began.

    No others: until they have, Slurm calls them not responding, and an srun that asks for a job's first step then waits
    for SlurmctldTimeout. And none that is drained, which would be taken for resumed.
    """
    boots = lost_jobs.boots_in(nodes)
    rebooted: Set[str] = set()
    latest = max(boots.values(), default=0.0)
    for job in lost_jobs.jobs_in(context.must(lost_jobs.RUNNING, seconds=SECONDS)):
        if job.state != "CONFIGURING" and job.start is not None and job.start < latest:
            rebooted.update(host for host in names_in(context, job.node_list) if job.start < boots.get(host, 0.0))
    asked = [
        node
        for node in sorted(rebooted)
        if states[node].answers and not states[node].is_drained and not states[node].flags & UNDER_WAY
    ]
    for first in range(0, len(asked), NODES_PER_UPDATE):
        # UNDRAIN of a node that is not drained does nothing but this (`_require_node_reg` in Slurm's source).
        context.must(commands.update_nodes(asked[first : first + NODES_PER_UPDATE], "State=UNDRAIN"), seconds=SECONDS)


def end_jobs(
    context: Context, config: Mapping[str, str], nodes: Iterable[Mapping[str, str]], started: float, now: float
) -> None:
    """End the jobs that are lost, of which no node knows a step.

    slurmctld itself has ended most of them when the nodes registered. What has no script, and began before slurmctld,
    is also judged where no node has booted: each job has a step (PrologFlags=Contain) once its Prolog is over.
    """
    gathers = not config.get("JobAcctGatherType", "none").endswith(("none", "(null)"))  # or else sstat knows no step
    is_contained = gathers and "Contain" in config.get("PrologFlags", "")
    has_prolog = any(key == "Prolog" or key.startswith("Prolog[") for key, value in config.items() if value != "(null)")
    oldest = min(started, now - LONG_PROLOG) if has_prolog else started
    boots, suspects = lost_jobs.boots_in(nodes), {}
    for job in lost_jobs.jobs_in(context.must(lost_jobs.RUNNING, seconds=SECONDS)):
        if job.start is None or job.start >= max([started, *boots.values()]):
            continue
        hosts = names_in(context, job.node_list)
        if all(host in boots for host in hosts):
            # An allocation of several nodes is judged by all of them.
            place = job.host or job.node_list
            looked = {place: lost_jobs.Looked(now, ())} if not job.is_batch and job.start < oldest else {}
            booted = max(boots[host] for host in ([job.host] if job.host else hosts))
            one = job._replace(host=place)
            if lost_jobs.lost([one], now, looked, {place: booted}, has_extern=is_contained):
                suspects[str(job.number)] = job
    alive = with_processes(context, suspects)
    for number, job in suspects.items():
        if number not in alive:
            done = context.run(job.ending, seconds=SECONDS)
            became = "waits again" if job.waits_again else "has ended"
            # It may have ended meanwhile.
            told = "refused by slurmctld: %s" % ascii(done.stderr[-80:]) if done.returncode else became
            starting.log("job %s of %s had no process left on %s: %s" % (job.id, job.user, job.node_list, told))


def names_in(context: Context, hostlist: str) -> List[str]:
    """The NodeNames in a hostlist."""
    if re.fullmatch(r"[\w.-]+", hostlist):
        return [hostlist]
    return context.must(commands.hostnames(hostlist), seconds=SECONDS).split()


def with_processes(context: Context, jobs: Iterable[str]) -> Set[str]:
    """Those of some jobs of which a node knows a step, or could not be asked."""
    ids, found = sorted(jobs), set()
    for first in range(0, len(ids), JOBS_AT_ONCE):
        some = ids[first : first + JOBS_AT_ONCE]
        done = context.run(commands.use_by_steps(some), seconds=SECONDS)
        if done.returncode:
            found.update(some)
        found.update(line.partition(".")[0] for line in done.stdout.decode(errors="replace").splitlines())
    return found


def end_lost(
    context: Context, config: Mapping[str, Any], remembered: Dict[str, Any], started: float, now: float
) -> bool:
    """Log the jobs that slurmctld had not yet saved, and end them in slurmdbd; False to try again later."""
    if config.get("AccountingStorageType") != "accounting_storage/slurmdbd":
        return True
    shown = context.must(commands.DIAGNOSTICS, seconds=SECONDS)
    if re.search(r"^DBD Agent queue size:\s*0$", shown, re.MULTILINE) is None:
        return False  # slurmdbd is still to be told what slurmctld knows
    named: List[str] = remembered.get("named", [])
    done = context.run(commands.RUNAWAY_JOBS, b"n\n", SECONDS, env=commands.IN_SECONDS)
    lines = done.stdout.decode(errors="replace").splitlines()
    lost = [line.split("|") for line in lines if re.fullmatch(r"\d+\|\w+\|\d+", line)]
    if any(now - int(submitted) > LOST_LATELY for _, _, submitted in lost):
        starting.log("slurmdbd has active jobs that slurmctld does not know, also old ones; all are left to an admin")
        return True
    for job, state, submitted in lost:
        # slurmctld may have given its number to another job since.
        records = commands.records_of([job], ("Submit", "User"), "--allocations").ask(context, SECONDS)
        told = (job, next((user for at, user in records if at == submitted), "somebody"), state)
        if job not in named:
            starting.log("job %s of %s is lost: slurmctld stopped before it had saved it (%s in slurmdbd)" % told)
    if lost:
        lost_jobs.close(context, [(job, int(submitted)) for job, _, submitted in lost])
    # While a job goes on to which slurmctld has given a lost one's number, Slurm takes the record for that job's.
    left = lost_jobs.runaway(context)
    for number, user, state in {(one.number, one.user, one.state) for one in left if one.number not in named}:
        until = "%s in slurmdbd until the job has ended that has its number now" % state
        starting.log("job %s of %s is lost: slurmctld stopped before it had saved it (%s)" % (number, user, until))
    remembered["named"] = sorted({*named, *(one.number for one in left)})
    return not left and now - started > lost_jobs.YOUNG_SECONDS
