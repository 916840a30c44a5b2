import flambeau as fl
from flambeau import nn

fl.optim.lr_scheduler.StepLR(nn.Linear(1, 1), 3)  # error: expected "Optimizer"
