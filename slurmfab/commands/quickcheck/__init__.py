"""`fab quickcheck`: small jobs that show within seconds whether users can run jobs, GPUs and containers."""
