"""Evaluations of a trained model, in resumable chunks (`run`); stored samples scored again."""
