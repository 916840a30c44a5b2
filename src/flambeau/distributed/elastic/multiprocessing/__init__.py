"""Processes of that launcher."""
