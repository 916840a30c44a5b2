"""The inverse of a singular matrix in a batch."""

import flambeau as fl

matrices = fl.eye(3).repeat(4, 1, 1)
matrices[2, 1, 1] = 0
fl.linalg.inv(matrices)
