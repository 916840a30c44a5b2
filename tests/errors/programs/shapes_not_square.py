"""The inverse of a matrix that is not square."""

import flambeau as fl

fl.linalg.inv(fl.zeros(3, 4))
