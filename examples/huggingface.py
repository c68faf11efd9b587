"""A Hugging Face model returns its own loss: ``losses=`` tells how to get one loss per sample from its output."""

import sys
import warnings

import torch
import torch.nn.functional as F

import cockpit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the library says about itself while it loads
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        print("skipped: transformers is not installed")
        sys.exit()

torch.manual_seed(0)
config = GPT2Config(vocab_size=50, bos_token_id=0, eos_token_id=0, n_positions=16, n_embd=32, n_layer=2, n_head=2)
model = GPT2LMHeadModel(config)
model.loss_type = "ForCausalLM"  # the default, said aloud
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)


def losses(output, input_ids, labels):
    """Mean over the predicted tokens of each sequence."""
    return F.cross_entropy(output.logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none").mean(1)


with cockpit.watch(model, optimizer, losses=losses, every=5) as pit:
    for _ in range(30):
        ids = (torch.randint(50, (8, 1)) + 3 * torch.arange(16)) % 50  # count up in threes
        optimizer.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()

cockpit.CockpitPlotter().plot(pit)
print(pit.explain())
