"""What makes a lab, and what does not."""

import pytest

from slurmfab.base.errors import InputError
from slurmfab.lab.layout import HostLayout
from slurmfab.lab.spec import MOST_NODES, LabSpec

MOST_CHARACTERS_OF_AN_INTERFACE = 15


def test_spec_when_nothing_is_said_then_it_is_one_controller_and_two_compute_nodes():
    assert LabSpec().host_names == ("ctl", "n1", "n2")


def test_spec_when_gpus_are_asked_for_then_each_host_has_as_many():
    models = LabSpec(gpus=("n1:2", "n2:4")).gpu_models
    assert {host: len(names) for host, names in models.items()} == {"n1": 2, "n2": 4}


def test_spec_when_gpus_have_models_then_each_device_has_its_own_and_others_are_stand_ins():
    models = LabSpec(gpus=("n1:1", "n2:2:A100-SXM4-40GB", "n2:1:GeForce_RTX_3090")).gpu_models
    assert models == {
        "n1": ("NVIDIA Lab Stand-in",),
        "n2": ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090"),
    }


def test_spec_when_hosts_have_packages_from_the_start_then_they_are_sorted_by_host():
    assert LabSpec(packages=("n1:slurmd,munge", "ctl:g++")).packages_of == {"n1": ("munge", "slurmd"), "ctl": ("g++",)}


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"name": "Lab"}, 'lab name "Lab"'),
        ({"name": "much2long"}, 'lab name "much2long"'),
        ({"name": ""}, 'lab name ""'),
        ({"suite": "woody"}, "bookworm, trixie, sid"),
        ({"slurm_packages": "rpm"}, 'packages "rpm": the lab knows debian, smd, el-smd'),
        ({"slurm_packages": "el-smd", "suite": "sid"}, "The stand-in for Enterprise Linux is made of trixie"),
        ({"slurm_packages": "el", "newer_slurm": True}, "is there as SchedMD's packages alone: el-smd"),
        ({"slurm_packages": "el-smd", "no_python": ("n1",)}, "has python3"),
        ({"slurm_packages": "smd", "suite": "bookworm"}, "begin with Slurm 23.11"),
        ({"other_packages": ("n1:rpm",)}, 'packages "rpm": the lab knows'),
        ({"other_packages": ("ctl:el",)}, "NODE:KIND"),
        ({"other_packages": ("n9:el",)}, 'other_packages names "n9"'),
        ({"other_packages": ("n1:el",), "suite": "bookworm"}, "made of trixie, not of bookworm"),
        ({"other_packages": ("n1:el",), "no_python": ("n1",)}, "has python3"),
        ({"other_packages": ("n1:el",), "newer_slurm": True}, "is there as SchedMD's packages alone: el-smd"),
        ({"like": "ubuntu-22.04"}, "the lab knows ubuntu-24.04, ubuntu-26.04"),
        ({"like": "ubuntu-26.04", "ssh_user": "ubuntu"}, "made of sid, not of trixie"),
        ({"like": "ubuntu-24.04"}, "the user is ubuntu"),
        ({"like": "ubuntu-24.04", "ssh_user": "ubuntu", "slurm_packages": "smd"}, "has Debian's packages of Slurm"),
        ({"like": "ubuntu-24.04", "ssh_user": "ubuntu", "no_python": ("n1",)}, "has python3"),
        ({"nodes": 0}, "1 to 200"),
        ({"nodes": 201}, "1 to 200"),
        ({"gpus": ("n1",)}, "HOST:COUNT"),
        ({"gpus": ("n1:0",)}, "HOST:COUNT"),
        ({"gpus": ("n1:2:",)}, "HOST:COUNT:MODEL"),
        ({"gpus": ("n1:2:a b",)}, "HOST:COUNT:MODEL"),
        ({"gpus": ("n9:1",)}, 'gpus names "n9": the lab has ctl and n1 to n2'),
        ({"no_python": ("n3",)}, 'no_python names "n3"'),
        ({"offline": ("n9",)}, 'offline names "n9"'),
        ({"hostnames": ("n1:under_score",)}, "HOST:NAME"),
        ({"hostnames": ("n9:cn09",)}, 'hostnames names "n9"'),
        ({"packages": ("n1",)}, "HOST:PACKAGE"),
        ({"packages": ("n1:munge,--quiet",)}, "HOST:PACKAGE"),
        ({"packages": ("n9:munge",)}, 'packages names "n9"'),
        ({"down": ("n1",), "hanging": ("n1",)}, "n1 cannot be down and hanging at once"),
        ({"unified": ("n9",)}, 'unified names "n9"'),
        ({"ssh_user": "no body"}, 'user "no body"'),
        ({"sudo_password": True}, "root needs no sudo"),
        ({"shared": ("shared",)}, 'shared "shared": name a directory'),
        ({"shared": ("/a/../b",)}, "by its absolute path"),
    ],
)
def test_spec_when_a_value_makes_no_lab_then_the_complaint_names_it(wrong, complaint):
    with pytest.raises(InputError, match="(?s)" + complaint.replace("(", r"\(")):
        LabSpec(**wrong)


def test_spec_when_several_values_are_wrong_then_all_are_said_at_once():
    with pytest.raises(InputError) as caught:
        LabSpec(name="X", suite="woody", down=("n7",))
    assert len(str(caught.value).splitlines()) == 3


def test_layout_when_names_are_as_long_as_allowed_then_interfaces_fit_into_what_linux_takes():
    host = HostLayout("eightchr", LabSpec(name="eightchr", nodes=MOST_NODES).host_names[-1])
    assert len(host.link) <= MOST_CHARACTERS_OF_AN_INTERFACE


def test_a_shared_directory_inside_of_another_one_which_hosts_could_replace_is_refused():
    with pytest.raises(InputError, match='"/srv/d/x/sw": it is inside of "/srv/d"'):
        LabSpec(shared=("/srv/d", "/srv/d/x/sw"))
