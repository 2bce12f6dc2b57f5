"""Configurations: Hydra's composition, a paper's rows, the schema, and errors with their remedy."""

import yaml

# OmegaConf's loader is a subclass of yaml.SafeLoader; libyaml's is ten times as fast as Python's.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
yaml.SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
