"""The training loop that all five papers share: rollout, verify, weigh, step, evaluate, compare.

As a library it is imported as `rlvr_papers`; common/api.py lists the public names.
"""

__path__ = __import__("pkgutil").extend_path(__path__, __name__)  # also folders of the user's own
