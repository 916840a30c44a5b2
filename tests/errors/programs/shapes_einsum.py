"""An index that means two sizes."""

import flambeau as fl

fl.einsum("bij,bjk->bik", fl.zeros(2, 3, 4), fl.zeros(2, 5, 6))
