"""Passes in an order, and graphs in parts for backends."""
