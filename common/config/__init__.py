"""Configurations: Hydra's composition, a paper's rows, the schema, and errors with their remedy."""

import yaml

# OmegaConf's loader, which Hydra uses too, is a subclass of yaml.SafeLoader. The one of libyaml,
# where PyYAML has it, is ten times as fast as the one in Python.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
