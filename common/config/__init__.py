"""Configurations: Hydra's composition, rows of a paper's YAML, the schema, and errors that name
key, value and remedy."""

import yaml

# What OmegaConf and Hydra read with is a subclass of this. libyaml, where PyYAML has it, is ten
# times as fast as Python.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
