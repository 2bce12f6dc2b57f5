"""Run folders and result files: how a run is written (`run`), which files of it count
(`collect`), and their tables."""
