"""More of the largest than there are."""

import flambeau as fl

fl.zeros(2, 3).topk(5)
