"""vmap over batches of two sizes."""

import flambeau as fl

fl.func.vmap(fl.dot)(fl.zeros(4, 3), fl.zeros(5, 3))
