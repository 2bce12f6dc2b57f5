"""Models: found or pretrained (`store`, `pretrain`), loaded, and run for log-probabilities
(`policy`, `recorded`)."""
