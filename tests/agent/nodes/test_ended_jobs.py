"""Jobs that have ended and still hold their nodes: which these are, and what they wait for by the processes there."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.nodes.ended_jobs import late, waits

SLURMD = "  760     1     0 Sl     999 /usr/sbin/slurmd --systemd\n"
EPILOG = """\
  909   760     0 S       70 /bin/sh /usr/local/lib/slurmfab/epilog
  911   909     0 S       70 /bin/sh /etc/slurm/epilog.d/50-site
  912   911     0 {}       70 curl https://inventory
job 909 5
"""
STEPS = """\
  861     1     0 Sl     300 slurmstepd: [5.extern]
  876   861     0 S      300 sleep 100000000
  878     1     0 {}     300 slurmstepd: [5.batch]
  893   878  3000 {}      300 python train.py
"""
FORGED = "  950   700  3000 T      300 slurmstepd: [5.batch]\n"
KERNEL = " hangs in the kernel (state D), where no signal reaches it"


@pytest.mark.parametrize(
    ("shown", "text", "repair"),
    [
        (
            EPILOG.format("S"),
            "its epilog has run for 70 s: `/bin/sh /etc/slurm/epilog.d/50-site` (PID 911), which waits for "
            "`curl https://inventory` (PID 912)",
            "kill 912 there; as the epilog then fails",
        ),
        (EPILOG.format("D"), f"`curl https://inventory` (PID 912){KERNEL}", "only a reboot ends it"),
        (EPILOG.format("T"), "(PID 912) was stopped by a signal (SIGSTOP)", "kill -CONT 912 there"),
        (
            "  909   760     0 S       70 /opt/clean.prolog\njob 909 5\n",
            "its prolog has run for 70 s: `/opt/clean.prolog` (PID 909)",
            "kill 909",
        ),
        (STEPS.format("Tl", "S"), "slurmstepd of its step batch, PID 878, was stopped by a signal", "kill -CONT 878"),
        (STEPS.format("Sl", "D"), f"its process `python train.py` (PID 893){KERNEL}", "only a reboot ends it"),
        (STEPS.format("Dl", "S"), f"slurmstepd of its step batch, PID 878,{KERNEL}", "only a reboot ends it"),
        (STEPS.format("Sl", "T"), "slurmstepd of its step extern, PID 861, does not end", "kill -9 861"),
        (EPILOG.format("S").replace("job 909 5", "job 909 6"), "nothing of it runs there any more", "wait some"),
        (FORGED, "nothing of it runs there any more", "wait some"),
    ],
)
def test_what_a_job_waits_for_is_what_its_node_shows(shown: str, text: str, repair: str) -> None:
    found = waits([5], SLURMD + shown)[5]
    assert text in found.text
    assert repair in found.repair


def test_jobs_are_late_a_minute_after_their_end_and_lines_of_others_are_left_out() -> None:
    shown = "5|5|ann|1000|n[1-2]|\n6|6_1|bob|1050|n3|\nx|7|eve|900|n1|\n8|8|eve|Unknown|n1|\n9|9|\n"
    assert [(one.number, one.node_list, one.seconds) for one in late(shown, 1070.0)] == [(5, "n[1-2]", 70.0)]
    assert [one.id for one in late(shown, 1111.0)] == ["5", "6_1"]
