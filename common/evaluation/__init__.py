"""Evaluations of a trained model: sampled, verified, measured and stored in resumable chunks
(`run`); stored samples scored again."""
