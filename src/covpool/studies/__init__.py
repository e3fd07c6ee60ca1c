"""Experiments built on the engine: comparing pools and sweeping settings."""
