"""The site's own job submit script behind slurmfab's, in a real slurmctld: both judge jobs; a broken one harms none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

FILE = """\
database: ctl
unix_users: false
accounts: [{name: physics}]
users: [{name: ada, accounts: [physics]}]
"""
SCRIPT = """\
local forbidden = {[ [[night]] ] = true}
function slurm_job_submit(job, partitions, uid)
   if forbidden[job.name] then
      slurm.user_msg("Not by night.")
      return slurm.ERROR
   end
   job.admin_comment = "judged"
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
return slurm.SUCCESS
"""
SUBMIT = "cd /tmp && runuser -u {} -- sbatch --parsable -n1 --mem=50 -o /dev/null -J {} --wrap true 2>&1"


@pytest.fixture(scope="module", params=in_turn("submit_script"))
def chained(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, database=True, nodes=1) as lab:
        for host in ("ctl", "n1"):
            lab.on(host, "useradd -u 3001 ada; useradd -u 3003 eve")
        (lab.inventory_path.parent / "submit.lua").write_text(SCRIPT)
        text = lab.inventory_path.read_text()
        lab.inventory_path.write_text(f"{text}{FILE}slurm_files: {{job_submit.lua: submit.lua}}\n")
        lab.deploy()
        yield lab


def test_both_scripts_judge_jobs_slurmfabs_first(chained: DeployedLab) -> None:
    assert chained.deploy()["steps"] == []
    assert "no account on the cluster" in chained.on("ctl", SUBMIT.format("eve", "night"), check=False)
    assert "Not by night." in chained.on("ctl", SUBMIT.format("ada", "night"), check=False)
    job = chained.on("ctl", SUBMIT.format("ada", "day"))
    assert chained.on("ctl", f"scontrol show job {job} | grep -c AdminComment=judged") == "1"
    assert chained.on("n1", "ls /etc/slurm | grep -c job_submit; :") == "0"
    succeeded(chained.slurmfab("check-cluster", "--only", "accounting,configuration"))


def test_a_broken_script_of_the_site_keeps_no_job_out_and_it_goes_with_its_name(chained: DeployedLab) -> None:
    (chained.inventory_path.parent / "submit.lua").write_text("function (\n")
    chained.deploy()
    job = chained.on("ctl", SUBMIT.format("ada", "night"))
    assert job.isdigit()
    assert "the site's job_submit.lua" in chained.on("ctl", "grep job_submit.lua: /var/log/slurm/slurmctld.log")
    text = chained.inventory_path.read_text().replace("slurm_files: {job_submit.lua: submit.lua}\n", "")
    chained.inventory_path.write_text(text)
    chained.deploy()
    assert chained.on("ctl", "grep -c site /etc/slurm/job_submit.lua; :") == "0"
    assert "no account on the cluster" in chained.on("ctl", SUBMIT.format("eve", "day"), check=False)
