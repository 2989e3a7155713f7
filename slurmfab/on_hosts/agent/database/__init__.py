"""MariaDB and slurmdbd on the host of the accounting database."""
