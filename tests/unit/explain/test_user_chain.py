"""The chain of a user: accounts, home directories, and why jobs wait or fail as a whole."""

from __future__ import annotations

from told_jobs import record, remembered, told

from slurmfab.commands.explain.user_chain import links

AT_HOME = {"uid": "4001", "home": "/home/ann", "owner": "4001", "free": "9000", "files": "100", "trouble": ""}


def test_a_user_when_there_is_no_account_then_that_is_the_cause() -> None:
    found = links(told(job=""), "eve", {"n1": {"trouble": "there is no such user"}}, has_database=True)
    assert found[0].text.startswith("eve has no account of Slurm's, so Slurm refuses all jobs of eve.")
    assert found[1].text == "on n1: there is no user eve"


def test_a_user_when_the_database_is_silent_then_no_account_is_missed() -> None:
    known = told(job="", missing=[["slurmdbd", "Connection refused"]])
    assert links(known, "ann", {"n1": AT_HOME}, has_database=True) == ()


def test_a_home_when_it_is_full_or_of_another_then_that_is_told_with_its_host() -> None:
    accounts = {"n1": AT_HOME, "n2": {**AT_HOME, "free": "3"}, "n3": {**AT_HOME, "owner": "0"}}
    texts = [link.text for link in links(told(job=""), "ann", accounts, has_database=False)]
    assert texts == [
        "on n2: the file system of /home/ann is full (3 MiB free)",
        "on n3: the home directory /home/ann belongs to UID 0, and ann has 4001",
    ]


def test_a_user_when_no_login_is_possible_then_that_is_told_with_its_host() -> None:
    accounts = {"n1": {**AT_HOME, "shell": "/bin/bash"}, "n2": {**AT_HOME, "shell": "/usr/sbin/nologin"},
                "n3": {**AT_HOME, "expired": "20000"}}  # fmt: skip
    texts = [link.text for link in links(told(job=""), "ann", accounts, has_database=False)]
    assert texts == [
        "on n2: the shell of ann is /usr/sbin/nologin, so that ann cannot log in",
        "on n3: the user ann expired on 2024-10-04, and cannot log in",
    ]


def test_a_user_when_as_many_jobs_are_in_the_queue_as_may_be_then_that_is_told() -> None:
    limits = "ClusterName=t Account=bio UserName=ann(4001) Partition= Priority=0 ID=6\n    MaxSubmitJobs=1(1)\n"
    texts = [link.text for link in links(told(job="", limits=limits), "ann", {}, has_database=False)]
    assert texts == [
        "account bio allows ann 1 job in the queue, and as many are there: Slurm refuses those that ann submits now"
    ]


def test_jobs_when_they_fail_alike_then_they_are_told_together() -> None:
    failed = [record(JobID=str(number), State="FAILED", ExitCode="7:0") for number in (5, 6, 7)]
    known = told(job="", records=[*failed, record(JobID="8")])
    assert [link.text for link in links(known, "ann", {}, has_database=False)] == [
        "of 4 jobs of ann that ended within a day 1 ended well",
        "ended with exit code 7: 3 jobs, all on n1, the last ones job 5, job 6 and job 7",
    ]


def test_jobs_when_they_wait_for_one_limit_then_it_is_told_once() -> None:
    waiting = [remembered(JobArrayID=str(number), QOS="narrow", Reason="QOSMaxCpuPerUserLimit") for number in (5, 6)]
    holder = remembered(JobArrayID="4", QOS="narrow", State="RUNNING", StartTime="13:00:00", NodeList="n1")
    on_record = record(JobID="4", QOS="narrow", State="RUNNING", Start="13:00:00", End="Unknown")
    known = told(job="", records=[on_record], memory=[*waiting, holder])
    texts = [link.text for link in links(known, "ann", {}, has_database=False)]
    assert texts == [
        "job 5 and job 6 wait: QOS narrow allows ann 1 CPU, which job 4 has since 13:00:00",
        "job 4 runs since 13:00:00 on n1",
    ]
