"""The rows of the table of breakages, one module per subject; each module lists its rows in `ROWS`."""
