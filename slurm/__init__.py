"""Experiments on a SLURM cluster: plan, estimate, submit, watch. Papers are given by name."""
