"""A file that is not there."""

import flambeau as fl

fl.load("checkpoints/epoch_3.pt")
