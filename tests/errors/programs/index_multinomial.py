"""More draws without replacement than there are categories."""

import flambeau as fl

fl.multinomial(fl.tensor([0.5, 0.5]), 3)
