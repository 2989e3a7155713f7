"""Where daemons listen and where they may: what ss(8) and ps(1) print, against the cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.commands.checks.listeners import misplaced

MORE = """\
rest: c1
registry: {host: c1, anonymous_pull: true}
jupyter: {host: c1, port: 8443}
monitoring: true
"""
PROCESSES = (
    "  1 init.scope\n 10 slurmctld.service\n 11 docker-registry.service\n 12 slurmfab-jupyter.service\n 13 {}.service\n"
)
RIGHT = """\
tcp LISTEN 0 4096        0.0.0.0:6817  0.0.0.0:* users:(("slurmctld",pid=10,fd=7))
tcp LISTEN 0 4096       10.0.0.1:5000  0.0.0.0:* users:(("docker-registry",pid=11,fd=3))
tcp LISTEN 0 4096       10.0.0.1:8443  0.0.0.0:* users:(("node",pid=12,fd=3))
tcp LISTEN 0 4096       10.0.0.1:8081  0.0.0.0:* users:(("jupyterhub",pid=12,fd=9))
tcp LISTEN 0 4096      127.0.0.1:8001  0.0.0.0:* users:(("node",pid=12,fd=4))
tcp LISTEN 0 128               *:22          *:* users:(("sshd",pid=1,fd=3))
udp UNCONN 0 0   127.0.0.53%lo:53      0.0.0.0:*
"""


@pytest.mark.parametrize(
    ("unit", "line", "told"),
    [
        ("slurmrestd", "tcp LISTEN 0 64 0.0.0.0:6820 0.0.0.0:*", "slurmrestd on *:6820"),
        ("slurmrestd", "tcp LISTEN 0 64 127.0.0.1:6820 0.0.0.0:*", "slurmrestd on 127.0.0.1:6820"),
        ("slurmrestd", "tcp LISTEN 0 64 [fd00::1]:6820 [::]:*", "slurmrestd on [fd00::1]:6820"),
        ("munge", "udp UNCONN 0 0 0.0.0.0:700 0.0.0.0:*", "munge on *:700"),
        ("slurmctld", "tcp LISTEN 0 64 *:6818 *:*", "slurmctld on *:6818"),
        ("slurmd", "tcp LISTEN 0 64 *:6818 *:*", "slurmd on *:6818"),  # c1 is no node
        ("docker-registry", "tcp LISTEN 0 64 *:5000 *:*", "docker-registry on *:5000"),
        ("slurmfab-registry-pull", "tcp LISTEN 0 64 10.0.0.1:5001 *:*", ""),
        ("slurmfab-jupyter", "tcp LISTEN 0 64 10.0.0.1:8001 *:*", "slurmfab-jupyter on 10.0.0.1:8001"),
        ("prometheus-node-exporter", "tcp LISTEN 0 64 10.0.0.1:9100 *:*", ""),
        ("prometheus-node-exporter", "tcp LISTEN 0 64 *:9100 *:*", "prometheus-node-exporter on *:9100"),
        ("jupyterhub", "tcp LISTEN 0 511 *:8000 *:*", "jupyterhub on *:8000"),
        ("jupyterhub", "tcp LISTEN 0 511 10.0.0.1:8443 *:*", "jupyterhub on 10.0.0.1:8443"),
        ("prometheus", "tcp LISTEN 0 64 *:9090 *:*", ""),  # the site's own: c1 has none of slurmfab's
        ("site", "tcp LISTEN 0 64 *:6820 *:*", ""),
        ("mariadb", "tcp LISTEN 0 64 *:3306 *:*", ""),  # c1 has no database of slurmfab's
    ],
)  # fmt: skip
def test_a_daemon_when_it_listens_where_the_cluster_file_has_none_is_told(unit: str, line: str, told: str) -> None:
    whole = cluster(THREE_HOSTS + MORE)
    known = plan_input(whole, facts_of(whole, prepared))
    shown = f'13\n\n{RIGHT}{line} users:(("program",pid=13,fd=5))\n\n{PROCESSES.format(unit)}'
    assert " ".join(map(str, misplaced(whole, known.lock, "c1", shown))) == told


@pytest.mark.parametrize("name", ['",pid=10,', '",pid=10,fd=3)', '(("",pid=10,', "x\n(("])
def test_a_users_program_when_its_name_looks_like_a_daemons_process_then_no_daemon_is_accused(name: str) -> None:
    whole = cluster(THREE_HOSTS)
    known = plan_input(whole, facts_of(whole, prepared))
    users = f'users:(("{name}",pid=99,fd=5),("{name}",pid=98,fd=5))'
    shown = f"13\n\ntcp LISTEN 0 64 *:4444 *:* {users}\n\n{PROCESSES.format('slurmd')} 98 user-1000.slice\n"
    assert misplaced(whole, known.lock, "c1", shown) == ()


@pytest.mark.parametrize(
    ("address", "socket", "told"),
    [
        ("0.0.0.0:6820", "slurmrestd.socket slurmrestd.service", "slurmrestd on *:6820"),
        ("[::]:6820", "slurmrestd.socket slurmrestd.service", "slurmrestd on *:6820"),
        ("*:3306", "mariadb-extra.socket mariadb.service", "mariadb on *:3306"),
        ("127.0.0.1:3306", "mariadb-extra.socket mariadb.service", ""),
        ("0.0.0.0:9", "site.socket site@1.service", ""),
    ],
)
def test_a_socket_of_systemd_when_it_starts_such_a_daemon_is_told_as_the_daemons(
    address: str, socket: str, told: str
) -> None:
    whole = cluster(f"{THREE_HOSTS}rest: c1\ndatabase: c1\n")
    known = plan_input(whole, facts_of(whole, prepared))
    listening = f'0\n\ntcp LISTEN 0 64 {address} 0.0.0.0:* users:(("systemd",pid=1,fd=5))\n\n 1 init.scope\n'
    shown = f"{listening}\n/run/x.sock    x.socket    x.service\n{address}    {socket}\n"
    assert " ".join(map(str, misplaced(whole, known.lock, "c1", shown))) == told


@pytest.mark.parametrize(
    ("host", "unit", "told"),
    [
        ("n1", "jupyterhub", "jupyterhub on *:8000"),  # the package is on every node
        ("n1", "slurmfab-jupyter", "slurmfab-jupyter on *:8000"),
        ("n1", "slurmfab-registry-pull", "slurmfab-registry-pull on *:8000"),
    ],
)
def test_a_unit_of_a_capability_when_the_host_has_it_for_its_programs_alone_may_listen_nowhere(
    host: str, unit: str, told: str
) -> None:
    whole = cluster(THREE_HOSTS + MORE)
    known = plan_input(whole, facts_of(whole, prepared))
    shown = f'0\n\ntcp LISTEN 0 511 *:8000 *:* users:(("node",pid=13,fd=5))\n\n 13 {unit}.service\n'
    assert " ".join(map(str, misplaced(whole, known.lock, host, shown))) == told


@pytest.mark.parametrize(
    ("users", "told"),
    [
        ('("slurmstepd",pid=13,fd=5)', ""),
        ('("jupyter-lab",pid=14,fd=5)', ""),
        ('("slurmd",pid=15,fd=5)', ""),
        ('("slurmd",pid=10,fd=5)', "slurmd on *:40000"),
        ('("slurmd",pid=15,fd=5),("slurmd",pid=10,fd=5)', "slurmd on *:40000"),
    ],
)
def test_a_process_of_a_job_when_it_is_in_the_unit_of_slurmd_then_is_no_daemon(users: str, told: str) -> None:
    whole = cluster(THREE_HOSTS)
    known = plan_input(whole, facts_of(whole, prepared))
    units = "".join(f" {number} slurmd.service\n" for number in (10, 13, 14, 15))
    shown = f"10\n\ntcp LISTEN 0 64 *:40000 *:* users:({users})\n\n{units}"
    assert " ".join(map(str, misplaced(whole, known.lock, "n1", shown))) == told
