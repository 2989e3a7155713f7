"""Stand-in for nccl-tests' all_reduce_perf on lab hosts with stand-in GPUs; its output says that it is one."""

PROGRAM = "/usr/bin/all_reduce_perf"
TABLE_FILE = "/etc/slurmfab-lab/nccl-table"

TABLE = """\
# Figures of the STAND-IN for nccl-tests' all_reduce_perf in a slurmfab lab; nothing is measured here.
# Of a message of so many bytes: its bus bandwidth in GB/s, out-of-place and in-place, and how many values are wrong.
# For two nodes and more, lines that begin with the word between. More lines: `seconds N`, how long it takes;
# `error TEXT`, what it fails with.
seconds 0.2
536870912 176.2 176.5 0
1073741824 182.4 181.9 0
2147483648 185.8 186.1 0
4294967296 187.3 187.6 0
8589934592 188.1 188.4 0
between 536870912 71.3 71.0 0
between 1073741824 78.9 79.2 0
between 2147483648 83.4 83.6 0
between 4294967296 85.9 86.0 0
between 8589934592 87.2 87.1 0
"""

ALL_REDUCE_PERF = r"""#!/bin/sh
# STAND-IN for all_reduce_perf of nccl-tests in a lab: there is no GPU, no NCCL, and nothing is measured.
# It prints what a table on this host says, in the format of the real program.
table=/etc/slurmfab-lab/nccl-table
gpus=1 least=33554432 most=33554432
bytes() {
    case $1 in
        *G) echo $((${1%G} * 1073741824)) ;;
        *M) echo $((${1%M} * 1048576)) ;;
        *K) echo $((${1%K} * 1024)) ;;
        *) echo "$1" ;;
    esac
}
while [ $# -gt 1 ]; do
    case $1 in
        -g|--ngpus) gpus=$2 ;;
        -b|--minbytes) least=$(bytes "$2") ;;
        -e|--maxbytes) most=$(bytes "$2") ;;
    esac
    shift 2
done
there=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)
host=$(hostname)
if [ "$there" -lt "$gpus" ]; then
    echo "$host: Test CUDA failure common.cu:1044 'invalid device ordinal'"
    exit 1
fi
sleep "$(awk '$1 == "seconds" { n = $2 } END { print n + 0 }' "$table")"
error=$(sed -n 's/^error //p' "$table")
if [ -n "$error" ]; then
    echo "$host: Test NCCL failure common.cu:1212 '$error'"
    echo " .. $host pid $$: Test failure common.cu:1097"
    exit 3
fi
# Of several processes the first speaks for all, as the real program's does.
[ "${SLURM_PROCID:-0}" = 0 ] || exit 0
ranks=$((gpus * ${SLURM_NTASKS:-1}))
prefix=
[ "${SLURM_NNODES:-1}" = 1 ] || prefix=between
echo "# STAND-IN in a slurmfab lab: figures of $table, no GPU and no NCCL"
echo "# nThread 1 nGpus $gpus minBytes $least maxBytes $most step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1" \
    "validation: 1 graph: 0"
echo "#"
echo "# Using devices"
rank=0
while [ "$rank" -lt "$ranks" ]; do
    printf '#  Rank %2d Group  0 Pid %6d on %10s device %2d [0x%02x] NVIDIA Lab Stand-in\n' \
        "$rank" $$ "$host" "$rank" $((rank + 1))
    rank=$((rank + 1))
done
awk -v least="$least" -v most="$most" -v ranks="$ranks" -v prefix="$prefix" '
    function column(size, speed) {
        factor = 2 * (ranks - 1) / ranks
        alg = factor ? speed / factor : speed
        time = size / alg / 1000
        form = time >= 10000 ? "%7.0f" : time >= 100 ? "%7.1f" : "%7.2f"
        speed = factor ? speed : 0
        sum += speed; count++
        return sprintf("  " form "  %6.2f  %6.2f  %5d", time, alg, speed, wrong)
    }
    BEGIN {
        print "#"
        print "#                                                              out-of-place                       in-place          "
        print "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
        print "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       "
    }
    prefix != "" && $1 == prefix { sub(/^between /, "") ; mine = 1 }
    prefix == "" || mine {
        mine = 0
        if ($1 ~ /^[0-9]+$/ && $1 >= least && $1 <= most) {
            wrong = $4; total += 2 * $4
            printf "%12.0f  %12.0f     float     sum      -1%s%s\n", $1, $1 / 4, column($1, $2), column($1, $3)
        }
    }
    END {
        printf "# Out of bounds values : %d %s\n", total, total ? "FAILED" : "OK"
        printf "# Avg bus bandwidth    : %g \n#\n", count ? sum / count : 0
        exit total ? 1 : 0
    }
' "$table"
"""  # noqa: E501 - the real program's header is that long
