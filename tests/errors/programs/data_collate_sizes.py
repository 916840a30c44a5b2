"""Images of different sizes in one batch."""

import flambeau as fl
from flambeau.utils.data import DataLoader

images = [fl.zeros(3, 32, 32), fl.zeros(3, 32, 32), fl.zeros(3, 32, 48), fl.zeros(3, 32, 32)]
for batch in DataLoader(images, batch_size=4):
    pass
