"""What stands in for hardware and for trouble that this machine does not have; every piece says so itself."""

NVIDIA_SMI = r"""#!/bin/sh
# STAND-IN for nvidia-smi in a lab: there is no GPU and no driver, only device files.
# It answers what is asked to discover GPUs: -L, and --query-gpu=FIELDS --format=csv[,noheader][,nounits].
count=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
model="NVIDIA Lab Stand-in"
uuid() { printf 'GPU-00000000-0000-4000-8000-%012d' "$1"; }
value() {
    case $1 in
        index|minor_number) echo "$2" ;;
        name|gpu_name) echo "$model" ;;
        uuid|gpu_uuid) uuid "$2"; echo ;;
        count) echo "$count" ;;
        memory.total) if [ "$units" = yes ]; then echo "16384 MiB"; else echo 16384; fi ;;
        pci.bus_id|gpu_bus_id) printf '00000000:%02X:00.0\n' $(($2 + 1)) ;;
        driver_version) echo "0.0 (stand-in)" ;;
        compute_mode) echo Default ;;
        *) echo "[Not Supported]" ;;
    esac
}
case $1 in
    -L|--list-gpus)
        n=0
        while [ "$n" -lt "$count" ]; do echo "GPU $n: $model (UUID: $(uuid "$n"))"; n=$((n + 1)); done ;;
    --query-gpu=*)
        fields=$(echo "${1#--query-gpu=}" | tr ',' ' ')
        units=yes
        case "$*" in *nounits*) units=no ;; esac
        case "$*" in *noheader*) ;; *) echo "${1#--query-gpu=}" | sed 's/,/, /g' ;; esac
        n=0
        while [ "$n" -lt "$count" ]; do
            line=
            for field in $fields; do line="$line${line:+, }$(value "$field" "$n")"; done
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
"""Device number of NVIDIA's driver (Documentation/admin-guide/devices.txt of Linux)."""


def gpu_devices(count: int) -> str:
    """Lines for tmpfiles.d(5) that make the device files of so many GPUs at every boot."""
    numbers = {f"nvidia{number}": number for number in range(count)} | {"nvidiactl": 255}
    return "".join(f"c /dev/{name} 0666 root root - {NVIDIA_MAJOR}:{number}\n" for name, number in numbers.items())
