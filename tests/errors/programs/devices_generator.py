"""A generator of another device."""

import flambeau as fl

fl.Generator(device="cuda")
