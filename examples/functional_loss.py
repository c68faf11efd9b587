"""A functional loss: hand the individual losses to ``pit.loss`` and call ``backward`` on what it returns."""

import torch
import torch.nn.functional as F

import cockpit

torch.manual_seed(0)
weight = torch.randn(20, 1)
model = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

with cockpit.watch(model, optimizer, quantities="business", every=5) as pit:
    for _ in range(50):
        x = torch.randn(32, 20)
        y = torch.sin(x @ weight)
        optimizer.zero_grad()
        losses = F.mse_loss(model(x), y, reduction="none")
        pit.loss(losses).backward()  # the mean, as F.mse_loss(model(x), y) would give
        optimizer.step()

for step, values in pit.get_output().items():
    alpha = "undefined" if values["Alpha"] is None else f"{values['Alpha']:+.2f}"
    print(f"step {step:3d}  loss {values['Loss']:.3f}  alpha {alpha}  norm test {values['NormTest']:.2f}")
