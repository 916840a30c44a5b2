"""Samples that are dicts give batches that are dicts."""
from typing_extensions import assert_type

import flambeau as fl
from flambeau.utils.data import DataLoader, Dataset


class Texts(Dataset[dict[str, fl.Tensor]]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict[str, fl.Tensor]:
        return {"ids": fl.arange(3) + index, "label": fl.tensor(index)}


for batch in DataLoader(Texts(), batch_size=2):
    assert_type(batch, dict[str, fl.Tensor])
    print(batch["ids"].shape)
