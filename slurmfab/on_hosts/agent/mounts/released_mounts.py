"""Mounts that slurmfab made and the cluster file has no more, or has otherwise: unmounted, if nobody uses them."""

from __future__ import annotations

from typing import ClassVar, Dict, Iterable, List, Tuple

from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.program_name import FAB
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.mounts import in_use, mount_units
from slurmfab.on_hosts.agent.mounts.mount_units import AUTOMOUNT, MOUNT
from slurmfab.on_hosts.agent.nodes import job_processes
from slurmfab.on_hosts.agent.services import systemctl
from slurmfab.on_hosts.agent.services.process import age
from slurmfab.on_hosts.agent.services.service import ENABLED, show

SECONDS = 20.0  # time limit of the question to slurmctld


def forgotten(context: Context, jobs: List[str]) -> Dict[int, str]:
    """PIDs of step daemons, of these jobs, that Slurm no longer knows; none if slurmctld does not answer."""
    try:
        known = set(context.must(list(commands.known_job_ids()), seconds=SECONDS).split())
    except ResourceFailed:
        return {}
    daemons = job_processes.step_daemons(context)
    return {pid: step for pid, step in daemons.items() if step.partition(".")[0] in set(jobs) - known}


def stuck_text(daemons: Dict[int, str]) -> str:
    """Why left steps of jobs are in the way, and what ends them. `daemons`: step by PID of its slurmstepd."""
    steps = ", ".join("%s (slurmstepd with PID %d, %s old)" % (daemons[pid], pid, age(pid)) for pid in sorted(daemons))
    return (
        "steps of jobs that Slurm has forgotten are left here: %s. They will not end by themselves: end them with "
        "`kill -9 %s`, or, if that does not help, restart the host with `%s reboot`; then deploy again"
        % (steps, " ".join(map(str, sorted(daemons))), FAB)
    )


STOP_SECONDS = 150.0
"""Time limit of systemctl: systemd gives umount(8) the unit's own time limit, and then as much until it is killed."""


class ReleasedMounts(Resource):
    """No former mount of slurmfab's is mounted or comes back, and none in use is unmounted; before its units go."""

    kind: ClassVar[str] = "released-mounts"
    only_name: ClassVar[str] = "former"
    UNSHOWN = ("files",)
    deadline: ClassVar[float] = 900.0
    files: Tuple[Tuple[str, str], ...]  # path and text of each unit's file of the cluster file
    # For a rollback, the paths of the units' files that it changes; the others stay. Empty for all.
    among: Tuple[str, ...] = ()

    def former(self, context: Context) -> Dict[str, str]:
        """The former mounts, the innermost first: paths of their unit's files by mount point."""
        there = mount_units.written(context)
        others = {path: text for path, text in there.items() if path not in self.among} if self.among else {}
        wanted = {**others, **dict(self.files)}
        units = [path for path in there if path.endswith(MOUNT)]
        found = {
            mount_units.value(there[path], "Where"): path
            for path in units
            if mount_units.meaning(there, path) != mount_units.meaning(wanted, path)
        }
        return dict(sorted(((point, path) for point, path in found.items() if point), reverse=True))

    def wanted(self, context: Context) -> State:
        """None of them is mounted."""
        return dict.fromkeys(self.former(context))

    def actual(self, context: Context) -> State:
        """Which are mounted, or enabled. Raises ResourceFailed if one is in use, and by whom."""
        former = self.former(context)
        mounted = {one.path for one in mount_units.table(context)} if former else set()
        state: Dict[str, str] = {}
        for point, path in former.items():
            if point in mounted:
                state[point] = "mounted"
            elif any(show(context, unit).get("UnitFileState") in ENABLED for unit in units_of(path)):
                state[point] = "enabled"
        refuse_in_use(context, {point: former[point] for point, value in state.items() if value == "mounted"})
        return state

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Unmount and disable them, the innermost first; ResourceFailed in umount(8)'s words."""
        for point, path in self.former(context).items():
            if point in differing:
                release(context, point, path)


def units_of(path: str) -> Tuple[str, str]:
    """The names of the automount and the mount unit of the file of the latter."""
    name = mount_units.unit_of(path)
    return name[: -len(MOUNT)] + AUTOMOUNT, name


def refuse_in_use(context: Context, mounted: Dict[str, str]) -> None:
    """Raise ResourceFailed if jobs run, or one of the mount points (with its unit's file) is used."""
    if not mounted:
        return
    jobs = in_use.running_jobs(context)
    stuck = forgotten(context, jobs) if jobs else {}
    if stuck:
        raise ResourceFailed("%s not unmounted: %s" % (be(mounted), stuck_text(stuck)))
    if jobs:
        raise ResourceFailed(
            "%s not unmounted: %s. Wait for the end of the jobs, or drain the node, and deploy again"
            % (be(mounted), in_use.told_jobs(jobs))
        )
    for point, path in mounted.items():
        users = [*needing(context, path), *in_use.processes(context, point)]
        if users:
            raise ResourceFailed(
                "%s is not unmounted: it is in use by %s. End what uses it, and deploy again"
                % (point, ", ".join(users))
            )


def be(mounted: Iterable[str]) -> str:
    """Mount points with their verb: `/home is`."""
    points = list(mounted)
    return ", ".join(points) + (" is" if len(points) == 1 else " are")


def needing(context: Context, path: str) -> List[str]:
    """The active services that end if the mount ends (RequiresMountsFor), such as slurmctld for its state."""
    unit = units_of(path)[1]
    shown = context.run(systemctl.show_command([unit], ("RequiredBy",))).stdout.decode(errors="replace")
    names = shown.partition("=")[2].split()
    return [name for name in names if name.endswith(".service") and show(context, name).get("ActiveState") == "active"]


def release(context: Context, point: str, path: str) -> None:
    """Unmount, and disable units; only the mount unit stops first, as automounts unmount lazily."""
    automount, mount = units_of(path)
    done = context.run(["systemctl", "stop", "--", mount], seconds=STOP_SECONDS)
    if mount_units.mounted_at(mount_units.table(context), point) is not None:
        said = mount_units.failure_text(context, mount) or done.stderr.decode(errors="replace").strip()
        raise ResourceFailed("%s cannot be unmounted: %s" % (point, said))
    context.run(["systemctl", "disable", "--now", "--quiet", "--", automount])
    context.run(["systemctl", "disable", "--quiet", "--", mount])
    context.run(["systemctl", "reset-failed", "--", automount, mount])
