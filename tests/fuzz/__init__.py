"""A random caller of the library: `make fuzz CALLS=...`; see fuzz/__main__.py."""
