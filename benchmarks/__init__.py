"""How fast slurmfab is: measured in one run beside the least that the work can cost, and beside what else does it.

python -m benchmarks --list
python -m benchmarks no-change-5 --rounds 5
make bench
"""
