"""The rehearsal of a row (experiment) of the cluster: its own numbers, on a stub model."""
