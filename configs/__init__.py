"""Shared configuration groups; a package only so that Hydra finds them as pkg://configs."""

__path__ = __import__("pkgutil").extend_path(__path__, __name__)  # also folders of the user's own
