"""Any slurm.conf: each of its keys is accounted for once, and what the first deployment changes is told."""

from __future__ import annotations

from collections import Counter

from found_clusters import RELEASES, conf, found
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.slurm_settings import SLURM_CONF_KEYS_OF_SLURMFAB
from slurmfab.cluster.slurm.conf_text import logical_lines
from slurmfab.cluster.slurm.keys import NODE, PARTITION, SLURM_CONF, Key
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.survey import survey
from slurmfab.core.impact.slurm_diff import TEXT, differences
from slurmfab.core.plan.plan_input import PlanInput

PLACED = {
    *SLURM_CONF_KEYS_OF_SLURMFAB,
    *("SlurmctldAddr", "FrontendName", "AccountingStorageType", "SlurmctldPort", "SlurmdPort", "GresTypes"),
}
"""Keys that the generated texts have of their own, or with values that a cluster file refuses."""

SETTINGS = [key.name for key in SLURM_CONF.values() if key.name not in PLACED]
OF_NODES = [
    key.name for key in NODE.values()
    if key.name not in ("NodeAddr", "NodeHostname", "State", "Gres", "Port", "BcastAddr", "GresConf")
]  # fmt: skip
OF_PARTITIONS = [
    key.name for key in PARTITION.values()
    if key.name not in ("Nodes", "Default", "AllowAccounts", "AllowQos", "DenyAccounts", "DenyQos", "QOS")
    and not key.name.startswith(("Max", "Min", "Default"))
]  # fmt: skip

values = st.sampled_from(
    ("1", "60", "7200", "YES", "no", "a,b", "/usr/local/sbin/x", "plugin/one", '"two words"', "x=1")
)
VALUES = {"number": ("1", "60"), "seconds": ("7200", "5"), "memory": ("7200",), "truth": ("YES", "no"), "float": ("1",),
          "time": ("60", "1-0"), "port": ("7000",), "mode": ("OFF", "suspend,gang")}  # fmt: skip
"""By kind of a key, some values that Slurm takes."""


def values_of(key: Key) -> tuple[str, ...]:
    """Values that Slurm takes for a key; none for one of any text."""
    if key.kind.endswith("/"):
        return (f"{key.kind}one",)
    return VALUES.get(
        key.kind.rstrip("0123456789"), (key.kind.removeprefix("~").split("|")[0],) if "|" in key.kind else ()
    )


comments = st.sampled_from(("", "", "# why\n", "#Key=3\n", "#\n", "\n", "# because: of ünïcode\t{x}\n"))
cases = st.sampled_from((str, str, str.lower, str.upper))
ends = st.sampled_from(("", "", "  # later", "   "))


@st.composite
def assignments(draw: st.DrawFn, names: list[str], most: int) -> list[str]:
    """Some assignments of different keys, in any case."""
    some = draw(st.lists(st.sampled_from(names), max_size=most, unique=True))
    known = {key.name: key for key in (*NODE.values(), *PARTITION.values(), *SLURM_CONF.values())}
    each = {name: values_of(known[name]) for name in some}
    return [f"{draw(cases)(name)}={draw(st.sampled_from(own) if own else values)}" for name, own in each.items()]


@st.composite
def node_lines(draw: st.DrawFn) -> str:
    """Lines about n1 to n4, with lines of defaults and continued ones."""
    lines = []
    for hostlist in draw(st.sampled_from((["n[1-4]"], ["n1", "n[2-4]"], ["n[1,3]", "n2,n4"]))):
        if draw(st.booleans()):
            lines.append(" ".join(["NodeName=DEFAULT", *draw(assignments(OF_NODES, 3))]))
        numbers = draw(
            st.sampled_from(("", "CPUs=4", "Sockets=1 CoresPerSocket=2 ThreadsPerCore=2", "CPUs=2 Boards=1"))
        )
        join = draw(st.sampled_from((" ", " \\\n  ")))
        more = [numbers] * bool(numbers) + draw(assignments(OF_NODES, 3))
        lines.append(join.join([f"NodeName={hostlist}", *more]))
    return "\n".join(lines)


@st.composite
def partition_lines(draw: st.DrawFn) -> str:
    """A set of nodes, a line of defaults and two partitions."""
    lines = [f"NodeSet=some {draw(st.sampled_from(('Nodes=n[1-2]', 'Feature=a', 'Nodes=n1 Feature=b')))}"]
    if draw(st.booleans()):
        lines.append(" ".join(["PartitionName=DEFAULT", *draw(assignments(OF_PARTITIONS, 2))]))
    for name in ("p", "q"):
        nodes = draw(st.sampled_from(("ALL", "some", "n[1-3]", "n4,some")))
        lines.append(" ".join([f"PartitionName={name} Nodes={nodes}", *draw(assignments(OF_PARTITIONS, 3))]))
    return "\n".join(lines)


@st.composite
def slurm_confs(draw: st.DrawFn) -> str:
    """The text of a slurm.conf of ctl and n1 to n4."""
    head = "ClusterName=lab\nSlurmctldHost=ctl\nSlurmUser=slurm\nStateSaveLocation=/srv/slurm/state\n"
    lines = [f"{draw(comments)}{one}{draw(ends)}" for one in draw(assignments(SETTINGS, 12))]
    if lines and draw(st.booleans()):
        lines.append(lines[0].splitlines()[-1].split("#")[0].strip())
    return head + "\n".join([*lines, draw(node_lines()), draw(partition_lines())]) + "\n"


@settings(
    max_examples=80, derandomize=True, database=None, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(slurm_confs(), st.sampled_from(tuple(RELEASES)))
def test_any_slurm_conf_is_accounted_for(text: str, slurm: str) -> None:
    cluster = found(slurm, {name: (conf("slurm.conf", text),) for name in ("ctl", "n1", "n2", "n3", "n4")})
    taken = survey(cluster)
    keys = Counter(key for line in logical_lines(text) for key, _ in line)
    accounted = Counter(one.key.rpartition(" ")[2] for one in taken.account if one.file == "slurm.conf")
    assert accounted == keys
    assert all(one.where and not one.where.endswith(".") for one in taken.account)
    plan_of = loading.parse(taken.text, "cluster.yaml")
    plan_input = PlanInput(plan_of, first_lock(plan_of, OldCluster(cluster)), cluster.facts)
    left = differences({"slurm.conf": text}, plan_input.rendered, plan_input.is_same_host)
    told = " ".join(taken.remarks)
    assert [str(one) for one in left if one.kind != TEXT and one.name not in told] == []
