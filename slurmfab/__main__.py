"""`python -m slurmfab`, where the program is not on the search path; Python puts the working directory first there."""

import sys

if not getattr(sys.flags, "safe_path", sys.flags.isolated):
    del sys.path[0]

from slurmfab.cli.main import main

main()
