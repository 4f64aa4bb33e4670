"""Readers of model files: each turns one layout into the same `Weights`."""
