"""The program that makes the directory of a job before it, and removes it after it."""
