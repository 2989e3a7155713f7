"""Services, Slurm's files and nodes: the parts that need no systemd and no Slurm; the lab tests the rest."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.nodes import registered
from slurmfab.on_hosts.agent.nodes.registered import SlurmNodes
from slurmfab.on_hosts.agent.nodes.states import NodeState, states_from
from slurmfab.on_hosts.agent.services import daemon_log, listening, process, service, sockets, systemctl
from slurmfab.on_hosts.agent.services.freed_ports import FreedPorts
from slurmfab.on_hosts.agent.services.listening import Listening
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.services.units import Timer
from slurmfab.on_hosts.agent.slurm import files as slurm_files
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles


def test_systemctl_show_when_parsed_keeps_signs_in_values() -> None:
    shown = systemctl.parse_show(["munge"], "ActiveState=active\nX=a=b\n\n")
    assert shown == {"munge": {"ActiveState": "active", "X": "a=b"}}


def test_a_process_when_just_started_has_the_time_of_its_start() -> None:
    before = time.time()
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        start = process.process_start(child.pid)
        assert before - service.TICK <= start <= time.time()
    assert process.process_start(0) == 0


def test_a_service_when_a_watched_file_is_newer_has_to_restart(root: Path, context: Context) -> None:
    (root / "etc/old").touch()
    unit = Service("x", watches=("/etc/old", "/etc/new", "/etc/missing"))
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        shown = {"MainPID": str(child.pid)}
        start = process.process_start(child.pid)
        # The start is told in steps of 10 ms, so the new file has to be some steps away from it.
        while service.changed_at(str(root / "etc/new")) <= start + 2 * service.TICK:
            (root / "etc/new").touch()
        os.utime(root / "etc/new", (0, 0))
        words = unit.staleness(context, shown)
    assert words is not None
    assert words.startswith("older ")
    assert "new" in words
    assert "missing" not in words


def test_a_service_when_a_dry_run_would_change_its_file_would_restart(root: Path) -> None:
    (root / "etc/conf").touch()
    context = Context(str(root), dry_run=True)
    context.touched.add("/etc/conf")
    shown = {"MainPID": str(os.getpid())}
    os.utime(root / "etc/conf")
    assert Service("x", watches=("/etc/conf",)).staleness(context, shown) == "older conf"
    assert Service("x").staleness(context, shown) is None


def test_a_service_when_only_this_dry_run_would_change_its_file_is_reported_differently_from_an_outdated_one(
    root: Path,
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as child:
        shown = {"MainPID": str(child.pid)}
        unit = Service("x", watches=("/etc/absent", "/etc/conf"))
        context = Context(str(root), dry_run=True)
        context.touched.add("/etc/absent")
        assert unit.staleness(context, shown) == "absent before its change"
        while service.changed_at(str(root / "etc/conf")) <= process.process_start(child.pid) + 2 * service.TICK:
            (root / "etc/conf").touch()
        assert unit.staleness(context, shown) == "older conf, absent before its change"


def test_a_service_when_a_dry_run_would_remove_its_file_then_goes_on_as_in_the_run(root: Path) -> None:
    there = OwnedFile("/etc/systemd/system/x.service.d/10-slurmfab.conf", "[Service]\n")
    apply(OwnedFiles("restarts", (tuple(there),)), Context(str(root)))
    unit = Service("x", watches=(there.path,))
    shown = {"MainPID": str(os.getpid())}
    said = []
    for is_dry in (True, False):
        context = Context(str(root), dry_run=is_dry)
        assert apply(OwnedFiles("restarts", ()), context).status == ("would change" if is_dry else "changed")
        said.append(unit.staleness(context, shown))
    assert said == [None, None]


@pytest.mark.parametrize(("set_back", "counts"), [(0, True), (3600, False)])
def test_a_change_in_the_future_does_not_count_since_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_back: float, counts: bool
) -> None:
    (tmp_path / "conf").touch()
    now = time.time() - set_back
    monkeypatch.setattr(service.time, "time", lambda: now)
    assert (service.changed_at(str(tmp_path / "conf")) > 0) is counts


class Systemd(Context):
    """A host on which every unit is active as soon as it is started, and on which some programs succeed."""

    def __init__(self, root: Path, succeeding: tuple[str, ...]) -> None:
        super().__init__(str(root))
        self.succeeding = succeeding
        self.asked: list[str] = []
        self.when_started: Callable[[], object] = lambda: None

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[0] not in ("systemctl", *self.succeeding):
            raise ResourceFailed(f"{argv[0]} is not installed")
        self.asked.append(" ".join(argv[:2]))
        if argv[:2] == ["systemctl", "start"]:
            self.when_started()
        return subprocess.CompletedProcess(argv, 0, b"ActiveState=active\n", b"")


def test_a_service_when_its_daemon_answers_counts_as_started(root: Path) -> None:
    host = Systemd(root, succeeding=("scontrol",))
    Service("slurmctld", answers=("scontrol", "ping")).start(host, "start")
    assert host.asked == ["systemctl reset-failed", "systemctl start", "systemctl show", "scontrol ping"]


def test_a_service_when_its_daemon_cannot_be_asked_has_to_stay_active_for_a_while(root: Path) -> None:
    begun = time.monotonic()
    Service("slurmdbd").start(Systemd(root, succeeding=()), "start")
    assert time.monotonic() - begun >= service.STAY_SECONDS


class Dying(Systemd):
    """A host on which a daemon is active, answers nothing, and has ended when systemd is asked again and again."""

    def run(self, argv: Sequence[str], *words: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
        done = super().run(argv, *words, **options)
        if argv[0] == "scontrol":
            return subprocess.CompletedProcess(argv, 1, b"", b"")
        if self.asked.count("systemctl show") > 3:
            return subprocess.CompletedProcess(argv, 0, b"ActiveState=failed\nResult=exit-code\n", b"")
        shown = b"ActiveState=active\nMainPID=%d\n" % os.getpid()
        return subprocess.CompletedProcess(argv, 0, shown, b"") if argv[1] == "show" else done


@pytest.mark.parametrize(("unit", "answers"), [("slurmd", ("scontrol", "show")), ("slurmctld", ())])
def test_a_service_that_is_active_and_silent_until_it_ends_has_not_started(
    root: Path, unit: str, answers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STAY_SECONDS", 0.0)
    log = root / f"var/log/slurm/{unit}.log"
    log.parent.mkdir(parents=True)
    log.write_text("[2026-01-01T00:00:00.000] error: of an earlier start\n")
    host = Dying(root, succeeding=("scontrol",))
    host.when_started = lambda: log.open("a").write(f"[2026-01-02T00:00:00.000] fatal: no name for this {unit}\n")
    with pytest.raises(ResourceFailed, match=rf"{unit} does not stay active \(exit-code\): fatal: no name for this"):
        Service(unit, answers=answers).start(host, "start")


def test_a_service_that_never_answers_is_told_though_it_stays_active(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "START_SECONDS", 0.0)
    host = Systemd(root, succeeding=("journalctl",))
    with pytest.raises(ResourceFailed, match="slurmctld runs, but does not answer: ActiveState=active"):
        Service("slurmctld", answers=("scontrol", "ping")).start(host, "start")


class ChangedUnits(Context):
    """A host whose unit files changed since systemd read them; `programs` lists what was run."""

    def __init__(self, root: Path, needs_reload: str) -> None:
        super().__init__(str(root))
        self.needs_reload = needs_reload
        self.programs: list[str] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[1] != "show":
            self.programs.append(" ".join(word for word in argv if word != "--quiet"))
        shown = f"LoadState=loaded\nActiveState=active\nNeedDaemonReload={self.needs_reload}\n"
        return subprocess.CompletedProcess(argv, 0, shown.encode(), b"")


@pytest.mark.parametrize(("needs_reload", "first"), [("yes", ["systemctl daemon-reload"]), ("no", [])])
def test_a_service_when_systemd_has_an_older_unit_file_is_changed_after_systemd_has_read_it_again(
    root: Path, needs_reload: str, first: list[str]
) -> None:
    host = ChangedUnits(root, needs_reload)
    Service("slurmd", answers=("true", "x")).converge(host, frozenset({"enabled", service.LOADED}))
    enabled_and_restarted = ["systemctl enable slurmd", "systemctl reset-failed slurmd", "systemctl restart slurmd"]
    assert host.programs == [*first, *enabled_and_restarted, "true x"]


class Units(Context):
    """A host on which systemd shows these properties of every unit; `programs` lists what was run."""

    def __init__(self, root: Path, **shown: str) -> None:
        super().__init__(str(root))
        self.shown = "".join(f"{name}={value}\n" for name, value in shown.items())
        self.programs: list[str] = []

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[1] != "show":
            self.programs.append(" ".join(word for word in argv if word != "--quiet"))
        return subprocess.CompletedProcess(argv, 0, self.shown.encode(), b"")


def test_a_service_that_does_not_exist_is_told_and_nothing_is_run(root: Path) -> None:
    host = Units(root, ActiveState="inactive", LoadState="not-found")
    with pytest.raises(ResourceFailed, match="there is no unit slurmd on this host"):
        Service("slurmd").converge(host, frozenset({"running"}))
    assert host.programs == []


@pytest.mark.parametrize(("count", "told"), [("0", "no"), ("1", "1 time"), ("3", "3 times"), ("", "no")])
def test_a_daemon_that_systemd_has_started_again_is_told_and_taken_note_of_without_a_restart(
    root: Path, count: str, told: str
) -> None:
    host = Units(root, ActiveState="active", UnitFileState="enabled", NRestarts=count)
    assert Service("slurmdbd").actual(host)[service.BY_ITSELF] == told
    Service("slurmdbd").converge(host, frozenset({service.BY_ITSELF}))
    assert host.programs == ["systemctl reset-failed slurmdbd"]


def test_only_daemons_of_slurm_and_munge_are_counted(root: Path) -> None:
    assert service.BY_ITSELF not in Service("mariadb").wanted(Context(str(root)))
    assert Service("munge").wanted(Context(str(root)))[service.BY_ITSELF] == service.NEVER


@pytest.mark.parametrize(("limit", "is_told"), [("20min", True), ("0", False)])
def test_a_start_that_systemd_will_repeat_has_failed_unless_it_repeats_for_ever(
    root: Path, monkeypatch: pytest.MonkeyPatch, limit: str, is_told: bool
) -> None:
    monkeypatch.setattr(service, "START_SECONDS", 0.0 if not is_told else 600.0)
    shown = {"ActiveState": "activating", "SubState": "auto-restart", "StartLimitIntervalUSec": limit}
    host = Units(root, **shown, Result="exit-code")
    with pytest.raises(ResourceFailed, match=r"slurmd does not stay active \(exit-code\)"):
        Service("slurmd").start(host, "start")
    assert service.has_ended(shown) == is_told


def test_a_daemon_that_systemd_is_about_to_start_again_is_not_waited_for(root: Path) -> None:
    host = Units(
        root, ActiveState="activating", SubState="auto-restart", LoadState="loaded", StartLimitIntervalUSec="1s"
    )
    with pytest.raises(ResourceFailed):
        Service("munge").converge(host, frozenset({"running"}))
    assert "systemctl restart munge" in host.programs


class Masked(Units):
    """A host with masked units, which `systemctl unmask` unmasks as systemd does."""

    def __init__(self, root: Path, *masks: str) -> None:
        super().__init__(root)
        self.masks = [*masks]

    def run(self, argv: Sequence[str], *words: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
        state = self.masks[0] if self.masks else "enabled"
        self.shown = f"LoadState={'masked' if self.masks else 'loaded'}\nActiveState=active\nUnitFileState={state}\n"
        if argv[1] == "unmask" and self.masks and ("--runtime" in argv) == (state == "masked-runtime"):
            self.masks.pop(0)
        return super().run(argv, *words, **options)


@pytest.mark.parametrize(
    ("masks", "programs"),
    [
        (["masked"], ["systemctl unmask slurmd"]),
        (["masked-runtime"], ["systemctl unmask --runtime slurmd"]),
        (["masked", "masked-runtime"], ["systemctl unmask slurmd", "systemctl unmask --runtime slurmd"]),
    ],
)
def test_a_masked_service_is_unmasked_as_it_was_masked_and_enabled(
    root: Path, masks: list[str], programs: list[str]
) -> None:
    host = Masked(root, *masks)
    assert Service("slurmd").actual(host)["enabled"] == "masked"
    Service("slurmd").converge(host, frozenset({"enabled"}))
    assert host.programs == [*programs, "systemctl enable slurmd"]


def test_a_service_that_is_masked_where_nobody_can_unmask_it_is_told(root: Path) -> None:
    with pytest.raises(ResourceFailed, match="slurmd stays masked"):
        Service("slurmd").converge(Masked(root, "masked", "masked", "masked"), frozenset({"enabled"}))


class Thawing(Units):
    """A host on which systemd goes on with the process of a unit that it restarts."""

    def run(self, argv: Sequence[str], *words: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[1] == "restart":
            os.kill(int(self.shown.partition("MainPID=")[2]), signal.SIGCONT)
        return super().run(argv, *words, **options)


def frozen_or_not(*, frozen: bool) -> tuple[dict[str, str], Callable[[], None]]:
    """Properties of a unit whose main process runs or is stopped by a signal, and what ends that process."""
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    if frozen:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)

    def end() -> None:
        child.kill()
        child.communicate()

    return {"ActiveState": "active", "UnitFileState": "enabled", "MainPID": str(child.pid)}, end


@pytest.mark.parametrize(("frozen", "answers"), [(True, "no"), (False, "yes")])
def test_a_daemon_that_a_signal_has_stopped_does_not_answer_and_is_restarted(
    root: Path, frozen: bool, answers: str
) -> None:
    shown, end = frozen_or_not(frozen=frozen)
    try:
        host = Thawing(root, **shown)
        unit = Service("munge", followers=("slurmd",))
        assert unit.actual(host)["answers"] == answers
        assert host.programs == [], "a healthy host pays for no program"
        if frozen:
            unit.converge(host, frozenset({"answers"}))
            assert "systemctl restart munge" in host.programs
            assert "systemctl try-restart slurmd" in host.programs
    finally:
        end()


def test_a_slurmd_that_does_not_listen_does_not_answer_and_gets_time_before_it_is_restarted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, end = frozen_or_not(frozen=False)
    try:
        host = Units(root, **shown)
        assert Service("slurmd").actual(host)["answers"] == "no"
        Service("slurmd", answers=("scontrol", "ping")).converge(host, frozenset({"answers"}))
        assert host.programs == ["scontrol ping"]
        monkeypatch.setattr(service, "START_SECONDS", 0.0)
        with pytest.raises(ResourceFailed, match="slurmd runs, but does not answer"):
            Service("slurmd").converge(host, frozenset({"answers"}))
        assert "systemctl restart slurmd" in host.programs
    finally:
        end()


def test_a_process_listens_with_a_socket_of_its_own() -> None:
    with socket.socket() as own:
        assert not sockets.has_listening_socket(os.getpid())
        own.bind(("127.0.0.1", 0))
        own.listen()
        assert sockets.has_listening_socket(os.getpid())


@pytest.mark.parametrize(
    ("state", "shown"),
    [("inactive", "no"), ("failed", "no"), ("active", "yes"), ("activating", "yes"), ("deactivating", "yes")],
)
def test_a_service_that_shall_not_run_is_down_also_when_it_has_failed(root: Path, state: str, shown: str) -> None:
    host = Units(root, ActiveState=state, UnitFileState="disabled")
    assert Service("slurmd", running=False).actual(host) == {"enabled": "no", "running": shown}


def test_a_timer_is_restarted_after_systemd_has_read_its_files_again(root: Path) -> None:
    host = Units(root, LoadState="loaded", ActiveState="active", UnitFileState="enabled", NeedDaemonReload="yes")
    timer = Timer("slurmfab-backup")
    assert timer.actual(host) == {"enabled": "yes", "running": "yes", service.LOADED: "older"}
    timer.converge(host, frozenset({service.LOADED}))
    units = "slurmfab-backup.timer"
    assert host.programs == ["systemctl daemon-reload", f"systemctl enable {units}", f"systemctl restart {units}"]


def test_a_timer_that_systemd_does_not_load_is_not_enabled(root: Path) -> None:
    host = Units(root, LoadState="bad-setting")
    with pytest.raises(ResourceFailed, match=r"systemd does not load slurmfab-backup\.timer"):
        Timer("slurmfab-backup").converge(host, frozenset({"enabled"}))
    assert host.programs == ["systemctl daemon-reload"]


def test_a_daemon_that_has_ended_is_not_waited_for_and_its_last_errors_are_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening.time, "sleep", lambda _: pytest.fail("it is waited for"))
    (root / "dbd.log").write_text("[1] error: old\n" * 9999 + "[2] error: no database\n[3] fatal: giving up\n")
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        daemon = Listening("slurmdbd", taken.getsockname()[1], 60, "/dbd.log")
        assert daemon.actual(Units(root)) == {"listens": "no"}
        with pytest.raises(ResourceFailed, match=r"slurmdbd has ended: error: old \| error: no database \| fatal"):
            daemon.converge(Units(root, ActiveState="failed"), frozenset({"listens"}))
        taken.listen()
        assert daemon.actual(Units(root)) == {"listens": "yes"}
        daemon.converge(Units(root, ActiveState="active"), frozenset({"listens"}))


def test_a_daemon_that_does_not_listen_in_time_is_told_though_it_runs(root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        daemon = Listening("slurmdbd", taken.getsockname()[1], 0, "/none.log")
        with pytest.raises(ResourceFailed, match=r"does not answer after 0 s: no error in /none\.log"):
            daemon.converge(Units(root, ActiveState="active"), frozenset({"listens"}))


def test_a_log_when_searched_gives_its_errors() -> None:
    assert daemon_log.error_lines("debug: a\n[x] error: b\nfatal: c\n") == ["[x] error: b", "fatal: c"]


FILES = SlurmFiles("/etc/slurm", (("slurm.conf", "a\n"), ("gres.conf", "b\n")))


def test_slurm_files_when_some_differ_touch_only_these(root: Path) -> None:
    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/slurm.conf").write_text("a\n")
    (root / "etc/slurm/gres.conf").write_text("old\n")
    context = Context(str(root), dry_run=True)
    outcome = apply(FILES, context)
    assert [change.name for change in outcome.changes] == ["gres.conf"]
    assert context.touched == {"/etc/slurm/gres.conf"}


def test_a_link_of_roots_in_the_place_of_slurm_conf_is_replaced_and_its_target_stays(root: Path) -> None:
    class Accepting(Context):
        """A host whose Slurm accepts all files."""

        def run(self, argv: Any, *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
            return subprocess.CompletedProcess(argv, 0, b"", b"")

    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/gres.conf").write_text("b\n")
    (root / "etc/theirs").write_text("theirs\n")
    (root / "etc/slurm/slurm.conf").symlink_to("../theirs")
    outcome = apply(FILES, Accepting(str(root)))
    assert [(one.name, one.actual) for one in outcome.changes] == [("slurm.conf access", "a link to ../theirs")]
    assert outcome.status == "changed"
    assert not (root / "etc/slurm/slurm.conf").is_symlink()
    assert (root / "etc/slurm/slurm.conf").read_text() == "a\n"
    assert (root / "etc/theirs").read_text() == "theirs\n"


def test_slurm_files_that_stay_are_checked_together_with_the_new_ones_and_not_changed(root: Path) -> None:
    judged: dict[str, str] = {}

    class Judge(Context):
        """A host whose Slurm accepts all files."""

        def run(self, argv: Any, *_: Any, env: Any = None, **__: Any) -> subprocess.CompletedProcess[bytes]:
            judged.update((path.name, path.read_text()) for path in Path(env["SLURM_CONF"]).parent.iterdir())
            return subprocess.CompletedProcess(argv, 0, b"", b"")

    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/slurm.conf").write_text("stays\n")
    before = identity(root / "etc/slurm/slurm.conf")
    files = SlurmFiles("/etc/slurm", (("gres.conf", "new\n"),), beside=("slurm.conf", "cgroup.conf"))
    assert apply(files, Judge(str(root))).status == "changed"
    assert judged == {"gres.conf": "new\n", "slurm.conf": "stays\n"}
    assert identity(root / "etc/slurm/slurm.conf") == before
    assert (root / "etc/slurm/gres.conf").read_text() == "new\n"


@pytest.mark.parametrize("stopped_by", ["cgroup.conf", "topology.conf"])
def test_a_new_slurm_conf_when_a_file_that_it_needs_cannot_be_replaced_is_not_in_place(
    root: Path, stopped_by: str
) -> None:
    class Accepting(Context):
        """A host whose Slurm accepts all files."""

        def run(self, argv: Any, *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
            return subprocess.CompletedProcess(argv, 0, b"", b"")

    folder = root / "etc/slurm"
    (folder / stopped_by).mkdir(parents=True)
    (folder / "slurm.conf").write_text("old\n")
    names = ("slurm.conf", "topology.conf", "cgroup.conf")
    files = SlurmFiles("/etc/slurm", tuple((name, "new\n") for name in names))
    with pytest.raises(ResourceFailed, match=stopped_by):
        files.converge(Accepting(str(root)), frozenset(names))
    assert (folder / "slurm.conf").read_text() == "old\n"
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []


class Parsing(Context):
    """A host with these Slurm programs, of which slurmd may refuse the files; `programs` lists what was run."""

    def __init__(self, root: Path, *, has_slurmd: bool, refusal: str = "") -> None:
        super().__init__(str(root))
        self.refusal = refusal
        self.programs: list[str] = []
        (root / "usr/sbin").mkdir(parents=True)
        (root / "etc/slurm").mkdir()
        if has_slurmd:
            (root / "usr/sbin/slurmd").touch()

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.programs.append(" ".join(argv[:4]))
        is_refused = argv[0] == "slurmd" and bool(self.refusal)
        return subprocess.CompletedProcess(argv, int(is_refused), b"", self.refusal.encode())


@pytest.mark.parametrize(
    ("node", "has_slurmd", "parsers"),
    [
        ("n1", True, ["scontrol show hostnames x", "slurmd -G -N n1"]),
        ("n1", False, ["scontrol show hostnames x"]),
        ("", True, ["scontrol show hostnames x"]),
    ],
    ids=["node", "before its packages", "controller"],
)
def test_slurm_files_of_a_node_are_parsed_by_slurmd_too_which_reads_gres_conf(
    root: Path, node: str, has_slurmd: bool, parsers: list[str]
) -> None:
    host = Parsing(root, has_slurmd=has_slurmd)
    assert apply(SlurmFiles("/etc/slurm", FILES.files, node=node), host).status == "changed"
    assert host.programs == parsers


def test_slurm_files_that_slurmd_refuses_are_not_put_in_place(root: Path) -> None:
    host = Parsing(root, has_slurmd=True, refusal="slurmd: fatal: can't stat gres.conf file /dev/nvidia3")
    assert "nothing was replaced: fatal: can't stat gres.conf file /dev/nvidia3. A device that" in failure(
        SlurmFiles("/etc/slurm", FILES.files, node="n1"), host
    )
    assert list((root / "etc/slurm").iterdir()) == []


class Reading(Context):
    """A host whose Slurm refuses some slurm.conf; `read` holds the texts that it was asked about."""

    def __init__(self, root: Path, refusal: str = "", *, dry_run: bool = True, is_installed: bool = True) -> None:
        super().__init__(str(root), dry_run)
        self.refusal, self.is_installed = refusal, is_installed
        self.read: list[str] = []
        (root / "etc/slurm").mkdir()

    def run(self, argv: Any, *_: Any, env: Any = None, **__: Any) -> subprocess.CompletedProcess[bytes]:
        if not self.is_installed:
            raise ResourceFailed("scontrol is not installed")
        self.read.append(Path(env["SLURM_CONF"]).read_text())
        error = self.refusal.format(env["SLURM_CONF"])
        return subprocess.CompletedProcess(argv, int(bool(error)), b"", error.encode())


PREVIEWED = SlurmFiles("/etc/slurm", FILES.files, previewed=True)


def test_new_slurm_files_that_slurm_refuses_are_refused_in_a_dry_run_and_leave_no_file(root: Path) -> None:
    host = Reading(root, 'scontrol: error: Parse error in file {} line 1: " a"\nscontrol: fatal: no')
    outcome = apply(PREVIEWED, host)
    assert (outcome.status, outcome.message) == (
        "failed",
        "the installed Slurm refuses the new files, so nothing was replaced: "
        'error: Parse error in file /etc/slurm/slurm.conf line 1: " a" | fatal: no',
    )
    assert (host.read, list((root / "etc/slurm").iterdir())) == (["a\n"], [])


def test_new_slurm_files_that_slurm_accepts_would_change_in_a_dry_run(root: Path) -> None:
    assert apply(PREVIEWED, Reading(root)).status == "would change"


def test_new_slurm_files_before_slurm_is_installed_are_judged_later(root: Path) -> None:
    assert apply(PREVIEWED, Reading(root, is_installed=False)).status == "would change"


@pytest.mark.parametrize(
    ("users", "shown"), [("", "\na\n"), ("slurm:x:64030:64030::/:/bin/sh\n", "SlurmUser=slurm\na\n")]
)
def test_a_new_slurm_conf_before_its_user_is_made_is_shown_to_slurm_without_it(
    root: Path, users: str, shown: str
) -> None:
    (root / "etc/passwd").write_text(users)
    host = Reading(root)
    files = SlurmFiles("/etc/slurm", (("slurm.conf", "SlurmUser=slurm\na\n"),), previewed=True)
    assert (apply(files, host).status, host.read) == ("would change", [shown])


def test_slurm_files_that_do_not_change_and_those_of_other_hosts_are_not_shown_to_slurm_in_a_dry_run(
    root: Path,
) -> None:
    host = Reading(root, "it would refuse them")
    assert apply(FILES, host).status == "would change"
    for name, text in FILES.files:
        (root / "etc/slurm" / name).write_text(text)
        (root / "etc/slurm" / name).chmod(0o644)
    assert (apply(PREVIEWED, host).status, host.read) == ("ok", [])


def identity(path: Path) -> tuple[int, int]:
    """Metadata that changes when a file is written, but not when it is read."""
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_slurm_files_when_only_access_or_leftovers_differ_need_no_slurm(root: Path, context: Context) -> None:
    folder = root / "etc/slurm"
    (folder / ".slurmfab-dead").mkdir(parents=True)
    for name, content in FILES.files:
        (folder / name).write_text(content)
    (folder / "slurm.conf").chmod(0o600)
    outcome = apply(FILES, context)
    assert outcome.status == "changed"
    assert [change.name for change in outcome.changes] == ["slurm.conf access", "leftovers"]
    assert sorted(path.name for path in folder.iterdir()) == ["gres.conf", "slurm.conf"]
    assert (folder / "slurm.conf").stat().st_mode & 0o7777 == 0o644


def test_slurms_errors_when_repeated_are_reported_once_without_the_staging_path() -> None:
    said = (
        "scontrol: error: _parse_next_key: Parsing error at unrecognized key: Foo\n"
        "scontrol: debug: reading /etc/slurm/.slurmfab-x/slurm.conf\n"
        "slurmd: [2026-01-01T00:00:00] error: in /etc/slurm/.slurmfab-x/gres.conf\n"
        "scontrol: fatal: Unable to process configuration file\n"
    ) * 2
    assert slurm_files.slurm_errors(said, "/etc/slurm/.slurmfab-x", "/etc/slurm") == (
        "error: _parse_next_key: Parsing error at unrecognized key: Foo | error: in /etc/slurm/gres.conf"
        " | fatal: Unable to process configuration file"
    )


def short_form(lines: str) -> dict[str, NodeState]:
    """States from lines `NODE|STATE|REASON`."""
    return states_from([*line.split("|", 2), "root"] for line in lines.splitlines())


def shown(node: NodeState) -> str:
    """A node's state as a report has it."""
    return registered.READY if registered.is_right(node) else node.with_reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("n1|idle|none", "ready"),
        ("n1|mixed-|none", "ready"),
        ("n1|idle~|none", "ready"),
        ("n1|reboot^|none", "ready"),
        ("n1|idle*|none", "idle, not responding"),
        ("n1|down*|Not responding", "down, not responding (Not responding)"),
        ("n1|unknown*|none", "unknown, not responding"),
        ("n1|inval|gres/gpu count too low (0 < 1)", "inval (gres/gpu count too low (0 < 1))"),
        ("n1|drained|disk swap", "ready"),
        ("n1|drained*|power | work", "ready"),
        ("n1|draining|Low RealMemory", "draining (Low RealMemory)"),
        ("n1|n/a|none", "n/a"),
    ],
)
def test_a_node_is_ready_or_not_by_the_state_that_sinfo_prints(line: str, words: str) -> None:
    assert shown(short_form(line)["n1"]) == words


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("n1|down|Not responding", True),
        ("n1|down|Node unexpectedly rebooted", True),
        ("n1|down|none", True),
        ("n1|down*|Not responding", False),
        ("n1|down|broken fan", False),
        ("n1|drained|Not responding", False),
        ("n1|down|Low RealMemory", True),
        ("n1|drained|gres/gpu count reported lower than configured (0 < 2)", True),
        ("n1|inval|Low RealMemory", False),
        ("n1|down*|Low RealMemory", False),
    ],
)
def test_a_lost_node_when_slurmd_answers_again_may_be_resumed(line: str, expected: bool) -> None:
    assert registered.is_back(short_form(line)["n1"]) is expected


def test_nodes_when_many_have_a_short_name() -> None:
    assert SlurmNodes(("n1",)).id == "slurm-nodes:n1"
    assert SlurmNodes(("n1", "n2", "n3", "n4", "n5")).id == "slurm-nodes:n1..n5 (5)"


class UnitsOfSystemd(Context):
    """A host whose systemd has these units; `started` lists the programs that were run."""

    def __init__(self, states: dict[str, str], *, dry_run: bool) -> None:
        super().__init__(dry_run=dry_run)
        self.states, self.started = states, list[tuple[str, ...]]()

    def run(self, argv: Any, *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.started.append(tuple(argv))
        units = [unit.removesuffix(".service") for unit in argv[4:]]
        known = [self.states.get(unit, "inactive") for unit in units if "/" not in unit]
        said = "\n".join(f"ActiveState={state}\nMainPID=0\n" for state in known)
        return subprocess.CompletedProcess(argv, 0, said.encode(), b"")


def test_units_of_a_request_when_compared_are_read_by_one_call_of_systemctl() -> None:
    host = UnitsOfSystemd({"munge": "active", "slurmctld": "failed"}, dry_run=True)
    host.units = ("munge", "slurmctld", "slurmd")
    assert [service.show(host, unit)["ActiveState"] for unit in host.units] == ["active", "failed", "inactive"]
    assert service.is_active(host, "munge")
    assert service.is_active(host, "munge.service"), "the same unit by its full name"
    assert len(host.started) == 1
    assert service.show(host, "mariadb")["ActiveState"] == "inactive", "a unit that no resource is about"


def test_units_when_one_name_is_invalid_are_read_one_by_one() -> None:
    host = UnitsOfSystemd({"munge": "active"}, dry_run=True)
    host.units = ("munge", "no/unit", "slurmd")
    assert [service.show(host, unit).get("ActiveState") for unit in host.units] == ["active", None, "inactive"]


def test_a_unit_when_it_is_being_changed_is_read_each_time() -> None:
    host = UnitsOfSystemd({"munge": "inactive"}, dry_run=False)
    host.units = ("munge", "slurmd")
    assert not service.is_active(host, "munge")
    host.states["munge"] = "active"
    assert service.is_active(host, "munge")
    assert [argv[4:] for argv in host.started] == [("munge",)] * 2


def test_a_host_without_systemd_has_no_properties_of_units() -> None:
    host = UnitsOfSystemd({}, dry_run=True)
    host.run = lambda argv, *_, **__: subprocess.CompletedProcess(argv, 1, b"", b"")  # type: ignore[method-assign]
    host.units = ("munge", "slurmd")
    assert service.show(host, "slurmd") == {}


VERBS = ("start", "restart", "try-restart")
"""What systemctl can be told about a unit, as far as these tests need it."""


class StartingUnits(UnitsOfSystemd):
    """A host whose units become active when they are started or restarted."""

    def run(self, argv: Any, *words: Any, **options: Any) -> subprocess.CompletedProcess[bytes]:
        done = super().run(argv, *words, **options)
        if argv[1:2] and argv[1] in VERBS:
            self.states[argv[2]] = "active"
        return done

    def verbs(self) -> list[tuple[str, ...]]:
        """What systemctl was told to do, without questions."""
        return [argv[1:3] for argv in self.started if argv[1:2] and argv[1] in VERBS]


@pytest.mark.parametrize(
    ("state", "stops_early", "verb"),
    [("inactive", True, "start"), ("failed", True, "start"), ("activating", True, "restart"),
     ("activating", False, "start")],
)  # fmt: skip
def test_a_daemon_that_is_still_starting_when_it_is_to_run_is_restarted_only_if_it_can_be_stopped(
    state: str, stops_early: bool, verb: str
) -> None:
    host = StartingUnits({"slurmd": state}, dry_run=False)
    Service("slurmd", answers=("true",), stops_early=stops_early).converge(host, frozenset({"running"}))
    assert host.verbs() == [(verb, "slurmd")]


@pytest.mark.parametrize(
    ("state", "restarts"),
    [("active", [("try-restart", "slurmd")]), ("reloading", [("try-restart", "slurmd")]), ("activating", []),
     ("inactive", [])],
)  # fmt: skip
def test_a_follower_when_its_unit_was_started_is_restarted_only_if_it_runs(
    state: str, restarts: list[tuple[str, ...]]
) -> None:
    host = StartingUnits({"munge": "inactive", "slurmd": state}, dry_run=False)
    Service("munge", followers=("slurmd",), answers=("true",)).converge(host, frozenset({"running"}))
    assert host.verbs() == [("start", "munge"), *restarts]


@pytest.mark.parametrize(
    ("first", "of_slurmctld", "held"),
    [(0, 1, True), (0, 0, False), (1, 1, False)],
    ids=["another's", "its own, too", "nobody's"],
)
def test_a_port_when_a_daemon_has_it_that_another_one_gets_then_that_daemon_is_in_the_way(
    first: int, of_slurmctld: int, *, held: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        context = Context(dry_run=True)
        context.units_shown = {"slurmctld.service": {"MainPID": str(os.getpid())}, "slurmdbd.service": {}}
        wanted = FreedPorts(
            (("slurmdbd", port + first, port + 1), ("slurmctld", port + of_slurmctld, port + of_slurmctld))
        )
        assert wanted.actual(context) == {"held": f"{port} of slurmdbd by slurmctld" if held else None}
