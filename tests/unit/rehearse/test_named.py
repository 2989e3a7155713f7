"""What a change names in slurm.conf, and the hosts of its twin do not have."""

from __future__ import annotations

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.rehearse import named

THERE = ("mn01", "cn01")


def loaded(more: str = "", files: str = "") -> Cluster:
    text = f"cluster: titanic\ncontrollers: [mn01]\nnodes: [{{hosts: 'cn[01-02]'}}]\nslurm_conf: {{{more}}}\n{files}"
    return loading.parse(text, "cluster.yaml")


class Hosts:
    """The hosts of a twin, which have no program; `prints` is what each prints."""

    def __init__(self, prints: str = "") -> None:
        self.prints = prints
        self.ran: list[tuple[str, str]] = []

    def shell(self, script: str, host: str) -> str:
        self.ran.append((host, script))
        return self.prints


def test_the_sites_own_programs_have_stand_ins_on_the_hosts_that_run_them() -> None:
    hosts = Hosts()
    cluster = loaded(
        "TaskProlog: /opt/site/task, HealthCheckProgram: /usr/sbin/nhc, MailProg: /opt/site/mail, "
        "Epilog: /etc/slurm/epilog.sh, Prolog: '/opt/site/prolog.d/*'",
        "files: {/opt/site/task: {text: hello}}\n",
    )
    named.stand_ins(cluster, THERE, hosts.shell)
    ran = dict(hosts.ran)
    assert "/opt/site/mail" in ran["mn01"]
    assert "/usr/sbin/nhc" in ran["cn01"]
    assert not any(path in "".join(ran.values()) for path in ("task", "epilog", "prolog.d"))


def test_a_program_that_the_change_names_and_the_hosts_lack_is_told() -> None:
    hosts = Hosts("no\n")
    former, known = loaded("MailProg: /opt/mail"), loaded("MailProg: /opt/mail, HealthCheckProgram: /opt/check")
    assert [*named.missing(former, known, THERE, hosts.shell)] == [
        "HealthCheckProgram: the twin's cn01 has no program /opt/check, or may not execute it. Have the hosts got it?"
    ]
    assert [*named.missing(former, known, THERE, Hosts().shell)] == []


def test_a_new_word_of_parameters_that_no_program_of_slurm_has_is_told() -> None:
    hosts = Hosts("bf_intervall\n")
    former, known = (loaded(f"SchedulerParameters: '{text}'") for text in ("nohold", "nohold,bf_intervall=60,bf_max=9"))
    assert [*named.unknown_words(former, known, THERE, hosts.shell)] == [
        "SchedulerParameters: no program of this Slurm has the word bf_intervall, so it has no effect."
    ]
    assert all("bf_max" in script and "nohold" not in script for _, script in hosts.ran)


def test_parameters_that_stay_as_they_are_are_not_looked_for() -> None:
    hosts = Hosts()
    assert [*named.unknown_words(loaded(), loaded("SlurmdTimeout: 9"), THERE, hosts.shell)] == []
    assert hosts.ran == []
