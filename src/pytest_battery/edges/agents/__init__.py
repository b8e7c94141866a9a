"""Agents: what runs in a sandbox and asks a model for itself."""
