"""With a collate_fn batches are whatever it gives."""
import flambeau as fl
from flambeau.utils.data import DataLoader, TensorDataset


def stack(samples: list[tuple[fl.Tensor, ...]]) -> fl.Tensor:
    return fl.stack([s[0] for s in samples])


total = fl.zeros(2)
for batch in DataLoader(TensorDataset(fl.ones(6, 2)), batch_size=3, collate_fn=stack, drop_last=True):
    total = total + batch.sum(0)
print(total)
