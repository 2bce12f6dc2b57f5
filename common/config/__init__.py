"""Configurations: Hydra's composition, rows of a paper's YAML, the schema, and errors that name
key, value and remedy."""
