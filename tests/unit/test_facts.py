"""What a host tells of itself: what its model takes, and the lies that it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from support import as_answer, prepared

from slurmfab.base.errors import AgentFailed
from slurmfab.cluster.facts import clock_of, from_answer

TRUE = as_answer(
    prepared(
        "n3",
        addresses=("10.0.0.3", "2001:db8::3", "::ffff:10.0.0.3"),
        services={"slurmd": "active", "slurmfab-backup.timer": "inactive"},
        mail_program="/usr/bin/mail",
        boot="5a0bd1e7-0e9e-4f3b-8a0e-6a2a0d1c9b1e 4711",
        os_like="debian ubuntu",
    )
)
PROCESSORS = ("CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
GPU = {"file": "/dev/nvidia0", "type": "a100", "bus": "0000:3b:00.0", "cores": "0-31,64-95", "with_files": []}
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGx5aW5n"


def nested(depth: int) -> Any:
    value: Any = ""
    for _ in range(depth):
        value = [value]
    return value


def test_what_an_honest_host_tells_is_taken() -> None:
    told = from_answer("n3", {**TRUE, "gpus": [GPU], "clock": 1.0}, 0.5)
    assert as_answer(told) == {**TRUE, "gpus": ({**GPU, "with_files": ()},)}
    assert told.clock_offset == 0.5


LIES = {
    "keys for everybody": {"ssh_host_keys": {"@cert-authority * ssh-ed25519": KEY}},
    "a key for all hosts": {"ssh_host_keys": {"* ssh-ed25519": KEY}},
    "a key and another line": {"ssh_host_keys": {"ssh-ed25519": f"{KEY}\n@cert-authority * ssh-ed25519 {KEY}"}},
    "a key and a line's end": {"ssh_host_keys": {"ssh-ed25519": f"{KEY}\n"}},
    "a key of an unknown type": {"ssh_host_keys": {"ssh-evil": KEY}},
    "the name of a mirror": {"hostname": "packages.example.org"},
    "two names": {"hostname": "n3 deb"},
    "a name and another line": {"hostname": "n3\n10.0.0.9 packages.example.org"},
    "a name that is an option": {"hostname": "-oProxyCommand=sh"},
    "no name": {"hostname": ""},
    "a long name": {"hostname": "n" * 64},
    "another node's line": {"gpus": [{**GPU, "cores": "0-31\nNodeName=n1 Name=gpu File=/dev/null"}]},
    "another key of gres.conf": {"gpus": [{**GPU, "cores": "0-31 Flags=x"}]},
    "more cores than there are": {"gpus": [{**GPU, "cores": ",".join(["0-1048575"] * 200)}]},
    "cores over and over": {"gpus": [{**GPU, "cores": ",".join(["0-65535"] * 200)}]},
    "a core that no node has": {"gpus": [{**GPU, "cores": "65536"}]},
    "a core of very many digits": {"gpus": [{**GPU, "cores": "9" * 4000}]},
    "endless efficiency cores": {"ecores": "0-999999999"},
    "a GPU's type with a line": {"gpus": [{**GPU, "type": "a100\nx"}]},
    "a GPU that is no device": {"gpus": [{**GPU, "file": "/dev/null File=/dev/sda"}]},
    "a GPU elsewhere": {"gpus": [{**GPU, "file": "/etc/shadow"}]},
    "a key without restrict": {"public_key": f"ssh-ed25519 {KEY} slurm@n3\nssh-ed25519 {KEY} slurm@n3"},
    "options before a key": {"public_key": f'command="sh" ssh-ed25519 {KEY} slurm@n3'},
    "a key of another type": {"public_key": f"ssh-rsa {KEY} slurm@n3"},
    "somebody else's key": {"public_key": f"ssh-ed25519 {KEY} root@n3"},
    "a program with arguments": {"mail_program": "/usr/bin/mail -x"},
    "a program and a line": {"mail_program": "/usr/bin/mail\nProlog=/tmp/x"},
    "an address that is a name": {"addresses": ["packages.example.org"]},
    "an address and a line": {"addresses": ["10.0.0.3\n10.0.0.3 n1"]},
    "a UID below zero": {"uids": {"-1": "x"}},
    "a UID of 64 bits": {"uids": {str(1 << 40): "x"}},
    "a UID that is text": {"accounts": {"slurm": {"uid": "0", "gid": 0, "home": "/", "shell": ""}}},
    "a home with a colon": {"accounts": {"slurm": {"uid": 1, "gid": 1, "home": "/x:/y", "shell": ""}}},
    "endless memory": {"hardware": {**TRUE["hardware"], "RealMemory": 10**30}},
    "no memory": {"hardware": {**TRUE["hardware"], "RealMemory": 0}},
    "all numbers at their ends": {"hardware": {**TRUE["hardware"], **dict.fromkeys(PROCESSORS, 65533)}},
    "65536 cores, which are 0": {"hardware": {**TRUE["hardware"], "SocketsPerBoard": 256, "CoresPerSocket": 256}},
    "65536 sockets of boards": {"hardware": {**TRUE["hardware"], "Boards": 256, "SocketsPerBoard": 256}},
    "65536 threads": {"hardware": {**TRUE["hardware"], "CoresPerSocket": 256, "ThreadsPerCore": 256}},
    "more than Linux has": {"hardware": {**TRUE["hardware"], "CPUs": 8193}},
    "more than Linux has, by the kernel": {"kernel": {**TRUE["hardware"], "SocketsPerBoard": 8193}},
    "half a processor": {"hardware": {**TRUE["hardware"], "CPUs": 0.5}},
    "a processor that is text": {"hardware": {**TRUE["hardware"], "CPUs": "4"}},
    "yes for true": {"fetches": "yes"},
    "a list for an object": {"uids": []},
    "an object for a list": {"gpus": {}},
    "nothing": {"packages": None},
    "an unknown control group": {"cgroup": {"version": "v3"}},
    "an unknown key": {"evil": 1},
    "an unknown key within": {"gpus": [{**GPU, "evil": 1}]},
    "its own name for the cluster": {"name": "ctl"},
    "a clock of ours": {"clock_offset": 0.0},
    "deep nesting": {"boot": nested(900)},
    "half a character": {"boot": "\ud800"},
    "an escape sequence": {"boot": "\x1b]52;c;AAAA\a"},
    "too many GPUs": {"gpus": [GPU] * 1025},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_of_a_host_is_refused_in_one_line_that_does_not_repeat_it(lie: dict[str, Any]) -> None:
    with pytest.raises(AgentFailed) as caught:
        from_answer("n3", {**TRUE, **lie}, 0.0)
    message = str(caught.value)
    assert message.startswith("n3: its facts were refused: ")
    assert message.isprintable()
    assert len(message) < 500
    assert KEY not in message


def test_a_host_with_as_many_processors_as_linux_supports_is_believed() -> None:
    most = {"CPUs": 8192, "Boards": 1, "SocketsPerBoard": 8, "CoresPerSocket": 512, "ThreadsPerCore": 2}
    facts = from_answer("n3", {**TRUE, "hardware": {**TRUE["hardware"], **most}}, 0.0)
    assert facts.hardware is not None
    assert facts.hardware.CPUs == 8192


@pytest.mark.parametrize("answer", [None, [], "facts", 1, [[TRUE]]])
def test_facts_that_are_no_object_are_refused(answer: Any) -> None:
    with pytest.raises(AgentFailed, match=r"^n3: its facts were refused"):
        from_answer("n3", answer, 0.0)


@pytest.mark.parametrize("clock", ["0", None, [], True, float("nan"), float("inf"), 1e300])
def test_a_clock_that_is_no_time_is_refused(clock: Any) -> None:
    with pytest.raises(AgentFailed, match=r"^n3: its facts were refused: clock"):
        clock_of("n3", {"clock": clock}, 0.0)
