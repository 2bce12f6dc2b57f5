"""What a scale of a paper runs (`plan`), in which order (`schedule`), and what it costs
(`cost`)."""
