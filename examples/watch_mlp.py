"""Watch an ordinary training loop: one line before it, nothing inside it."""

import torch
from torch import nn
from torch.utils.data import DataLoader

import cockpit
from cockpit.problems.digits import draw

torch.manual_seed(0)
model = nn.Sequential(nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loss_fn = nn.CrossEntropyLoss()
loader = DataLoader(draw("train", 0), batch_size=128, shuffle=True)

pit = cockpit.watch(model, optimizer, loss_fn)  # the one line

for x, y in loader:
    optimizer.zero_grad()
    loss_fn(model(x), y).backward()
    optimizer.step()

pit.close()

cockpit.CockpitPlotter().plot(pit)
print(pit.explain())
