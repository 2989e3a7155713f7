"""What a twin has of the programs that hosts tell of: stand-ins, units without lines of their own, places of Slurm."""

from __future__ import annotations

import subprocess

import pytest

from slurmfab.base.errors import InputError
from slurmfab.commands.import_cluster.found import FoundFile
from slurmfab.commands.rehearse import programs

DROP_IN = "/etc/systemd/system/slurmd.service.d/site.conf"


@pytest.mark.parametrize(
    ("path", "mode", "text"),
    [
        ("/etc/slurm/prolog.sh", 0o755, "#!/bin/sh\nevil\n"),
        ("/etc/slurm/prolog.sh", 0o644, "#!/bin/sh\nevil\n"),
        ("/etc/slurm/prolog", 0o755, "evil\n"),
        ("/etc/slurm/job_submit.lua", 0o644, "os.execute('evil')\n"),
        (DROP_IN, 0o644, "[Service]\nExecStartPre=/bin/evil\n"),
    ],
)
@pytest.mark.parametrize("link", ["", "/opt/a.conf", "/opt/a"])
def test_a_program_of_a_host_is_a_stand_in_whose_text_is_shown_before_it_may_run(
    path: str, mode: int, text: str, link: str
) -> None:
    file = FoundFile(path, text, mode, link)
    if link:
        assert "evil" not in programs.harmless(FoundFile(link, text, mode, path)).text
    assert "evil" not in programs.harmless(file).text
    assert "evil" in programs.shown([("n1", file), ("n2", file)])
    name = f"{path} -> {link}" if link else path
    assert f"--- {name} of n[1-2]:" in programs.shown([("n1", file), ("n2", file)])
    assert path in programs.left_out([("n1", file)])[0]


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028"])
def test_no_line_of_a_program_that_is_shown_looks_like_the_heading_of_another(end: str) -> None:
    file = FoundFile("/etc/slurm/prolog", f"#!/bin/sh{end}--- /etc/slurm/good of n2:{end}evil", 0o755)
    lines = programs.shown([("n1", file)]).splitlines()
    assert [line for line in lines if not line.startswith("    ")] == ["--- /etc/slurm/prolog of n1:"]
    assert "    evil" in lines


def test_every_text_that_a_program_may_read_is_shown_with_it() -> None:
    files = [
        ("n1", FoundFile("/etc/slurm/prolog", "#!/bin/sh\n. /etc/slurm/lib\n", 0o755)),
        ("n1", FoundFile("/etc/slurm/lib", "one evil\n", 0o644)),
        ("n2", FoundFile("/etc/slurm/more.conf", "another evil\n", 0o644)),
    ]
    assert programs.shown(files).count(" evil\n") == 2
    assert programs.shown(files[1:]) == ""


def test_a_stand_in_ends_with_0_whatever_it_is_given() -> None:
    done = subprocess.run(["sh", "-s", "x"], input=programs.STAND_IN, text=True, check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", ["slurm.conf", "gres.conf", "nodes.yaml"])
def test_configuration_stays_as_it_is_and_is_not_executed(name: str) -> None:
    file = FoundFile(f"/etc/slurm/{name}", "#!/bin/sh\n", 0o4755, "/opt/slurm.conf")
    assert (programs.harmless(file), programs.is_program(file)) == (file, False)


@pytest.mark.parametrize(
    ("line", "stays"),
    [
        ("LimitNOFILE=1048576", True),
        ("After=network-online.target", True),
        ("Restart=on-failure", True),
        ("ExecStart=/usr/sbin/slurmd -D $SLURMD_OPTIONS", True),
        ("ExecReload=/bin/kill -HUP $MAINPID", True),
        ("EnvironmentFile=-/etc/default/slurmd", True),
        ("ExecStart=/usr/sbin/slurmd --systemd --conf-server ctl:6817 -N n1 $SLURMD_OPTIONS", True),
        ("Environment=SLURMD_OPTIONS=-Dvv", True),
        ('Environment="SLURMD_OPTIONS=-D --conf-server ctl"', True),
        ("Environment=SLURM_CONF=/etc/slurm/slurm.conf", False),
        ("Environment=SLURMD_OPTIONS=-L/root/.bashrc", False),
        ('Environment="SLURMD_OPTIONS=-D -L /root/.bashrc"', False),
        ("ExecStart=/usr/sbin/slurmd -L /root/.bashrc", False),
        ("ExecStart=/usr/sbin/slurmd -D -f /opt/evil.conf", False),
        ("ExecStart=/usr/sbin/slurmd -d /opt/evil", False),
        ("ExecStart=/bin/kill -l", False),
        ("ExecReload=/bin/kill -HUP 1", False),
        ("Wants=debug-shell@1.service", False),
        ("Alias=ssh.service", False),
        ("ExecStartPre=-/usr/local/sbin/mounts", False),
        ("ExecStart=/usr/sbin/slurmd -D ; /bin/sh -c evil", False),
        ("ExecStart=/bin/sh -c 'exec /usr/sbin/slurmd'", False),
        ("ExecStopPost=/bin/evil", False),
        ("Environment=LD_PRELOAD=/tmp/evil.so", False),
        ('Environment="SLURM_CONF=/x" LD_PRELOAD=/tmp/evil.so', False),
        ("EnvironmentFile=/tmp/evil", False),
        ("BindPaths=/tmp/evil:/usr/sbin/slurmd", False),
        ("RootDirectory=/tmp/evil", False),
        ("OnFailure=evil.service", False),
    ],
)
def test_a_line_of_a_unit_stays_if_it_runs_nothing_but_slurms_daemons(line: str, stays: bool) -> None:
    start = "ExecStart=/usr/sbin/slurmd"
    assert [*programs.kept(f"[Service]\n{start}\n{line}\n")] == ["[Service]", start, *([line] if stays else [])]


def test_a_unit_that_starts_something_else_in_place_of_the_daemon_then_starts_the_daemon() -> None:
    assert [*programs.kept("[Service]\nExecStart=\nExecStart=/opt/wrapper slurmd\nNice = 3\n")] == [
        "[Service]",
        "Nice=3",
    ]


@pytest.mark.parametrize(
    "end", ["\\\r\n", "\\\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\0", "\\ \n", "\x1b"]
)
def test_a_unit_whose_lines_may_be_read_in_two_ways_then_is_left_out_and_named(end: str) -> None:
    text = f"[Service]\nExecStart=\nExecStart=/usr/sbin/slurmd {end}Description= ; /bin/bash -c evil\n"
    file = FoundFile(DROP_IN, text)
    assert programs.harmless(file).text == ""
    assert DROP_IN in programs.left_out([("n1", file)])[0]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/slurm/slurm.conf",
        "/etc/slurm/prolog.d/10-x",
        "/opt/site/nodes.conf",
        "/usr/local/etc/nodes.conf",
        "/home/slurm/etc/slurm.conf",
        DROP_IN,
        "/etc/systemd/system/slurmctld.service",
    ],
)
def test_a_file_of_slurms_may_be_where_it_is(path: str) -> None:
    programs.require_possible("n1", FoundFile(path, "", link=path))


@pytest.mark.parametrize(
    "path",
    [
        "/etc/ld.so.preload",
        "/etc/cron.d/slurm",
        "/etc/profile.d/slurm.sh",
        "/root/.ssh/authorized_keys",
        "/etc/systemd/system/evil.service",
        "/etc/systemd/system/slurmd.service.d/../evil.service",
        "/etc/slurm/../ld.so.preload",
        "/usr/sbin/slurmd",
        "/usr/lib/systemd/system/slurmd.service.d/site.conf",
        "/etc/systemd/system/slurmd.service.wants/evil.service",
        "/usr/lib/x86_64-linux-gnu/slurm-wlm/auth_munge.so",
        "/usr/local/lib/python3.11/dist-packages/evil.pth",
        "/dev/shm/evil",
        "slurm/slurm.conf",
        "/etc/slurm/a\nb",
        "/usr/local/share/perl/5.40.1/strict.pm",
        "/usr/local/sbin/sh",
        "/home/slurm/.bashrc",
        "/var/lib/slurm/.ssh/rc",
        "/libexec/x",
    ],
)
def test_a_file_elsewhere_of_which_a_host_tells_then_there_is_no_twin(path: str) -> None:
    with pytest.raises(InputError, match=r"n1 tells of .* Nothing was started\."):
        programs.require_possible("n1", FoundFile(path, ""))
    with pytest.raises(InputError, match="n1 tells of"):
        programs.require_possible("n1", FoundFile("/etc/slurm/x", "", link=path))


def test_a_program_of_a_site_is_among_its_programs_as_a_stand_in() -> None:
    programs.require_possible("n1", FoundFile("/usr/local/sbin/epilog", "evil", 0o755))


def test_a_binary_file_of_which_a_host_tells_then_there_is_no_twin() -> None:
    with pytest.raises(InputError, match="as texts"):
        programs.require_possible("n1", FoundFile("/etc/slurm/spank.conf", "\x7fELF\0"))


def test_stand_ins_that_were_called_are_told_with_their_hosts() -> None:
    (line,) = programs.told([("n1", "/etc/slurm/prolog.sh"), ("n2", "/etc/slurm/prolog.sh")])
    assert "/etc/slurm/prolog.sh (2 times, on n[1-2])" in line
    assert programs.told([]) == ()


@pytest.mark.parametrize(
    "path", ["/var/log/slurmd.log", "/var/spool/slurmd", "/run/slurmd.pid", "/srv/state", "/opt/x/log"]
)
def test_a_daemon_of_a_twin_may_write_where_nobody_runs_what_is_there(path: str) -> None:
    programs.require_log("n1", path)


@pytest.mark.parametrize(
    "path",
    [
        "/root/.bashrc", "/etc/profile.d/x.sh", "/etc/slurm/prolog", "/usr/bin/x", "/var/log/../../root/x",
        "/home/ann/x",
        "/var/spool/cron/crontabs/root", "/var/log/.x", "/srv/.profile", "root/.bashrc", "log",
    ],
)  # fmt: skip
def test_a_daemon_that_would_write_what_others_run_then_there_is_no_twin(path: str) -> None:
    with pytest.raises(InputError, match="a daemon of n1 writes to"):
        programs.require_log("n1", path)
