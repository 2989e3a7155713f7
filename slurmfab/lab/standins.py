"""Stand-ins for GPUs and for a hanging sshd on lab hosts; each one says that it is a stand-in."""

from __future__ import annotations

from collections.abc import Iterable

NVIDIA_SMI = r"""#!/bin/sh
# STAND-IN for nvidia-smi in a lab: there is no GPU and no driver, only device files.
# It answers what is asked to discover GPUs: -L, -q, and --query-gpu=FIELDS --format=csv[,noheader][,nounits], of the
# GPUs whose device files are there and may be opened, as the driver does in a job. Their models are in /etc/lab-gpus, a
# line for each: MINOR MODEL.
minors=
for minor in $(ls /dev/nvidia[0-9]* 2>/dev/null | sed 's/.*nvidia//' | sort -n); do
    # Without a driver an open fails as well, but for another reason than a control group's.
    case $( (exec 3<"/dev/nvidia$minor") 2>&1 ) in
        *"not permitted"*|*"denied"*) ;;
        *) minors="$minors $minor" ;;
    esac
done
count=$(echo $minors | wc -w)
uuid() { printf 'GPU-00000000-0000-4000-8000-%012d' "$1"; }
bus() { printf '00000000:%02X:00.0' $(($1 + 1)); }
model() {
    found=$(sed -n "s/^$1 //p" /etc/lab-gpus 2>/dev/null)
    echo "${found:-NVIDIA Lab Stand-in}"
}
value() {
    case $1 in
        index) echo "$3" ;;
        name|gpu_name) model "$2" ;;
        uuid|gpu_uuid) uuid "$2"; echo ;;
        count) echo "$count" ;;
        memory.total) if [ "$units" = yes ]; then echo "16384 MiB"; else echo 16384; fi ;;
        pci.bus_id|gpu_bus_id) bus "$2"; echo ;;
        driver_version) echo "0.0 (stand-in)" ;;
        compute_mode) echo Default ;;
        *) echo "[Not Supported]" ;;
    esac
}
n=0
case $1 in
    -L|--list-gpus)
        for minor in $minors; do echo "GPU $n: $(model "$minor") (UUID: $(uuid "$minor"))"; n=$((n + 1)); done ;;
    -q|--query)
        printf '\n==============NVSMI LOG==============\n\n'
        printf '%-42s: %s\n' "Driver Version" "0.0 (stand-in)" "Attached GPUs" "$count"
        for minor in $minors; do
            echo "GPU $(bus "$minor")"
            printf '    %-38s: %s\n' "Product Name" "$(model "$minor")" "GPU UUID" "$(uuid "$minor")" \
                "Minor Number" "$minor"
        done ;;
    --query-gpu=*)
        fields=$(echo "${1#--query-gpu=}" | tr ',' ' ')
        units=yes
        case "$*" in *nounits*) units=no ;; esac
        case "$*" in *noheader*) ;; *) echo "${1#--query-gpu=}" | sed 's/,/, /g' ;; esac
        for minor in $minors; do
            line=
            for field in $fields; do line="$line${line:+, }$(value "$field" "$minor" "$n")"; done
            echo "$line"
            n=$((n + 1))
        done ;;
    *)
        echo "Stand-in for nvidia-smi in a slurmfab lab: $count device files, no GPU." ;;
esac
"""

HANGING_SOCKET = """[Unit]
Description=STAND-IN for a hanging sshd: the kernel accepts connections on port 22, nobody ever answers

[Socket]
ListenStream=22

[Install]
WantedBy=multi-user.target
"""

HANGING_SERVICE = """[Unit]
Description=The process that does not answer on port 22

[Service]
ExecStart=/bin/sleep infinity
"""

NVIDIA_MAJOR = 195
"""Major device number of NVIDIA's driver (Linux, Documentation/admin-guide/devices.txt)."""


def gpu_devices(count: int) -> str:
    """Lines for tmpfiles.d(5) that make the device files of `count` GPUs at every boot."""
    numbers = {f"nvidia{number}": number for number in range(count)} | {"nvidiactl": 255}
    return "".join(f"c /dev/{name} 0666 root root - {NVIDIA_MAJOR}:{number}\n" for name, number in numbers.items())


def gpu_models(models: Iterable[str]) -> str:
    """Text of /etc/lab-gpus, which the stand-in nvidia-smi reads: per GPU its device file's number and its model."""
    return "".join(f"{number} {model}\n" for number, model in enumerate(models))
