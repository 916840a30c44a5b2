"""A device that is spelled wrongly."""

import flambeau as fl

fl.zeros(3, device="gpu")
