"""The program that divides a node's NVIDIA GPUs at boot (key `mig`)."""
