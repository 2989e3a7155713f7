"""Other names: consistent, in folded lists as well, and nothing else is touched."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmfab.commands.support_bundle import free_texts
from slurmfab.commands.support_bundle.pseudonyms import Names, Pseudonyms

NAMES = Names(
    ("ctl", "n1", "n2"),
    "alpine",
    {"ann": "Ann-Marie Böll,Room 7,+49 89 555", "b.smith": "", "root": "root", "slurm": "", "jobs": "Max Test"},
    ("nas77",),
    ("lab.example.org",),
    ("physics",),
    ("Wilhelm took it",),
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ann on n2: /home/ann/job.out", "user1 on host3: /home/user1/job.out"),
        ("NodeName=n[1-2] State=UNKNOWN", "NodeName=host[2-3] State=UNKNOWN"),
        ("Nodes=ctl,n[1,9]", "Nodes=host1,host2,other-host1"),
        ("Nodes=x[1-3] channel anna n10", "Nodes=x[1-3] channel anna n10"),
        ("slurmd-n1.log N1.lab.example.org", "slurmd-host2.log host2.domain1"),
        ("10.0.0.1:6817, 10.0.0.2, 127.0.0.1", "net1-address1:6817, net1-address2, 127.0.0.1"),
        ("10.0.0.1 10.0.1.1 10.0.0.1", "net1-address1 net2-address2 net1-address1"),
        ("172.16.1.1 in 172.16.0.0/12, 172.17.9.9", "net1-address1 in net1-address2/12, net1-address3"),
        ("NodeAddr=10.0.0.[11-12] 10.0.0.12", "NodeAddr=net1-address[1-2] net1-address2"),
        ("fd83::11 12:34:56 ::1 aa:bb:cc:dd:ee:ff", "net1-address1 12:34:56 ::1 mac1"),
        ("mail to bob@example.org by user@1000.service", "mail to mail1 by user@1000.service"),
        ("ssh-ed25519 AAAAC3Nz ann@laptop", "public-key1"),
        ("b.smith_2 root slurm", "user2_2 root slurm"),
        ("Ann-Marie Böll, BÖLL; marie, 'Böll, Ann-Marie' annmarieböll", "person1, person1; person1, 'person1' person1"),
        ("tel. +49 89 555 in Room 7", "tel. +person1 in person1"),
        ("ClusterName=alpine alpine_job_table NAS77:/x", "ClusterName=cluster1 cluster1_job_table server1:/x"),
        ("physics: Wilhelm took it", "account1: (text-1)"),
        ("all jobs failed, UserId=jobs(3000) /home/jobs", "all jobs failed, UserId=user3(3000) /home/user3"),
        ("GPU-12345678-9abc-def0-1234-56789abcdef0", "GPU-uuid1"),
    ],
)
def test_names_are_replaced_and_other_words_stay(text: str, shown: str) -> None:
    assert Pseudonyms(NAMES, [text]).text(text) == shown


def test_a_name_is_the_same_in_all_texts() -> None:
    names = Pseudonyms(NAMES)
    assert names.text("10.0.0.7") == names.text("10.0.0.7") == "net1-address1"
    assert names.text("hosts/n1/facts.json") == "hosts/host2/facts.json"


@given(
    before=st.text(" \n\t.,;:/='\"()[]-", max_size=3),
    name=st.sampled_from(
        ("ann", "ctl", "N2", "Alpine", "nas77", "lab.example.org", "Böll", "Ann-Marie Böll", "b.smith")
    ),
    change=st.sampled_from((str, str.upper, str.lower, str.title)),
    after=st.text(" \n\t.,;:/='\"()[]-", max_size=3),
)
def test_no_name_remains_whatever_is_around_it(before: str, name: str, change: type[str], after: str) -> None:
    text = f"error: job 7 {before}{change(name)}{after} failed"
    shown = Pseudonyms(NAMES).text(text)
    assert name.lower() not in shown.lower()
    assert shown.startswith("error: job 7 ")
    assert shown.endswith(" failed")


@pytest.mark.parametrize(
    "unit", ["ann ", "n1.", "ann-marie ", "10.0.0.1 ", "a@b.", "n[1-", "f:", "x", "a\n", "Reason=a "]
)
def test_a_text_made_to_be_slow_takes_time_in_proportion_to_its_length(unit: str) -> None:
    times = 8  # a square of the length would be 64 times as long
    assert seconds(unit, times * 20_000) < 3 * times * seconds(unit, 20_000)


def seconds(unit: str, size: int) -> float:
    """Seconds of a processor that a text takes which repeats a unit."""
    text = unit * (size // len(unit))
    begin = time.process_time()
    Pseudonyms(NAMES).text(text)
    list(free_texts.reason_places(text))
    return time.process_time() - begin
