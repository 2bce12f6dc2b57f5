"""Configurations: Hydra's composition, rows of a paper's YAML, the schema, and errors that name
key, value and remedy."""

import yaml

# OmegaConf's loader, which Hydra uses too, is a subclass of yaml.SafeLoader. The one of libyaml,
# where PyYAML has it, is ten times as fast as the one in Python.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
