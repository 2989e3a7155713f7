"""The text of a cluster file: read with line numbers, judged by rules, edited without touching the rest."""
