"""Sampling: the local engine with its decoder and DLC, and vLLM's engines."""
