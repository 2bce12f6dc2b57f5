"""Method files (configs/method) bound to their functions, and what a method does to a group,
exactly (`theory`)."""
