"""Shared configuration groups; a package only so that Hydra finds them as pkg://configs."""
