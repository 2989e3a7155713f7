"""The flow: plan, what a change does to daemons and jobs, and the run that carries a plan out."""
