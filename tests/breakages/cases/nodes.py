"""Nodes that Slurm does not use, and what it says about them."""

from __future__ import annotations

from breakage import Breakage, Checked, Mended, Told

SLURMCTLD_STARTS_ANEW = "test -e /run/nodes-{0} || {{ touch /run/nodes-{0} && systemctl restart slurmctld; }}"
"""Text for `sh -c` that restarts slurmctld once, so that it notices at once what it would notice within minutes."""

FROM_SLURMD_TO_THE_CONTROLLER = "to $(getent ahostsv4 ctl | sed -n '1s/ .*//p') ipproto 6 sport 6818 blackhole"

ROWS = (
    Breakage(
        name="node-down-by-hand",
        what="somebody took a node out of service (`scontrol update State=DOWN`)",
        breaks="scontrol update NodeName=n1 State=DOWN Reason='broken fan'",
        check=("its state in Slurm is DOWN", "broken fan"),
        plan=("out of service until a person resumes: n1: down (broken fan)", "nothing would be changed"),
        deploy=Told(
            words=("n1: slurm-nodes:n1: down (broken fan), set by root", "resume n1 --any"),
            repair="fab resume n1 --any",
        ),
    ),
    Breakage(
        name="node-drained-by-slurm",
        what="Slurm has drained a node because its prolog failed",
        breaks="scontrol update NodeName=n1 State=DRAIN Reason='Prolog error'",
        check=("its state in Slurm is IDLE+DRAIN", "Prolog error"),
        plan=("out of service until a person resumes: n1: drained (Prolog error)", "nothing would be changed"),
        deploy=Told(words=("n1: slurm-nodes:n1: drained (Prolog error)", "resume n1"), repair="fab resume n1"),
    ),
    Breakage(
        name="slurmd-port-dropped",
        what="a firewall between the controller and a node drops SlurmdPort",
        breaks="ip rule add ipproto 6 sport 6818 blackhole",
        shows=f"{SLURMCTLD_STARTS_ANEW.format('port')}; sinfo -h -N -n n1 -o %T | grep -q '^unknown'",
        check=("n1",),
        plan=("n1: unknown",),
        deploy=Told(
            words=(
                "waiting up to",
                "n1: slurm-nodes:n1: unknown",
                "gets no answer from",
                "port 6818",
                "does a firewall drop",
            ),
            # slurmctld asks silent nodes every 100 s; a slurmd that starts registers at once.
            repair="ip rule del ipproto 6 sport 6818 blackhole && systemctl restart slurmd",
        ),
    ),
    Breakage(
        name="controllers-way-dropped-beside-a-comment",
        what="a firewall drops what slurmd sends to the controller alone, and a comment was left in slurm.conf",
        breaks=f"echo '# left by hand' >>/etc/slurm/slurm.conf; ip rule add {FROM_SLURMD_TO_THE_CONTROLLER}",
        check=(
            "ctl cannot connect to slurmd on n1, port 6818",
            "let the cluster's hosts reach TCP port 6818 on n1",
            # The comment explains nothing else.
            "1 more, because of this: configuration: slurm.conf is the one that slurmctld has loaded (n1)",
        ),
        plan=("slurm.conf",),
        # A slurmd that starts registers at once; slurmctld asks again for an ended job within minutes.
        deploy=Checked(
            repair=f"ip rule del {FROM_SLURMD_TO_THE_CONTROLLER} && systemctl restart slurmd && "
            "timeout 240 sh -c 'until [ -z \"$(squeue -h)\" ]; do sleep 1; done'"
        ),
    ),
    Breakage(
        name="both-ports-dropped",
        what="a firewall drops all of Slurm between a node and the controller, and the node's slurmd writes that",
        breaks="ip rule add ipproto 6 sport 6818 blackhole; ip rule add ipproto 6 dport 6817 blackhole; "
        "systemctl restart slurmd",
        shows=f"{SLURMCTLD_STARTS_ANEW.format('dropped')}; sinfo -h -N -n n1 -o %T | grep -q '^unknown'",
        check=("n1 cannot connect to slurmctld on ctl",),
        plan=("n1: unknown",),
        deploy=Told(
            words=("n1: slurm-nodes:n1: unknown", "does a firewall drop", "The log of its slurmd says: error:"),
            repair="ip rule del ipproto 6 sport 6818 blackhole; ip rule del ipproto 6 dport 6817 blackhole; "
            "systemctl restart slurmd",
        ),
    ),
    Breakage(
        name="more-memory-than-there-is",
        what="slurm.conf was edited by hand on the controller, and gives nodes more memory than they have",
        host="ctl",
        breaks="sed -i 's/RealMemory=[0-9]*/RealMemory=9000000/' /etc/slurm/slurm.conf && systemctl restart slurmctld",
        shows="sinfo -h -N -o %T | grep -q inval",
        everywhere=True,
        check=("slurm.conf differs from the cluster file", "of memory, but slurm.conf says 9000000"),
        plan=("slurm.conf", "inval (Low RealMemory"),
        deploy=Mended(),
    ),
)
