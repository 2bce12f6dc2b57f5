"""The dress rehearsal: a row of the cluster with its own numbers, on a stub model."""
