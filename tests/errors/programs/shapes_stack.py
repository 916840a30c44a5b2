"""Stacking rows of different lengths."""

import flambeau as fl

rows = [fl.zeros(3), fl.zeros(3), fl.zeros(2)]
fl.stack(rows)
