"""Models: found or pretrained, loaded, and run for log-probabilities."""
