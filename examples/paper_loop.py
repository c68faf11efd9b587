"""The loop of the paper (dissertation, Algorithm C.1), as printed; ``extend`` is cockpit's and changes nothing."""

import tempfile

import torch
from torch.utils.data import DataLoader

from cockpit import Cockpit, CockpitPlotter, extend
from cockpit.problems.digits import digits, draw
from cockpit.utils.configuration import configuration as config

logpath = tempfile.mkdtemp() + "/log"
data = DataLoader(draw("train", 0), batch_size=128)
model = extend(digits.model(0))
loss_fn = extend(torch.nn.CrossEntropyLoss(reduction="mean"))
losses_fn = torch.nn.CrossEntropyLoss(reduction="none")
opt = torch.optim.SGD(model.parameters(), lr=1e-2)

cockpit = Cockpit(model.parameters(), quantities=config("full"))
plotter = CockpitPlotter()

max_steps, global_step = 20, 0
for inputs, labels in iter(data):
    opt.zero_grad()
    outputs = model(inputs)
    loss = loss_fn(outputs, labels)
    losses = losses_fn(outputs, labels)
    info = {"batch_size": inputs.shape[0], "individual_losses": losses, "loss": loss, "optimizer": opt}
    with cockpit(global_step, info=info):
        loss.backward(create_graph=cockpit.create_graph(global_step))

    opt.step()
    global_step += 1  # noqa: SIM113 - as printed
    if global_step >= max_steps:
        break

cockpit.write(logpath)
plotter.plot(logpath)
