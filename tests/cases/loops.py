"""Training loops as users write them.

Every function below is ordinary user code with one addition: `on_step()` is called right after
the optimizer has taken a step.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

OnStep = Callable[[], None]


def loop_plain(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(*args), y)
        loss.backward()
        optimizer.step()
        on_step()


def loop_zero_after(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        loss_fn(model(*args), y).backward()
        optimizer.step()
        on_step()
        optimizer.zero_grad(set_to_none=False)


def loop_scheduled(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    for args, y in batches:
        optimizer.zero_grad()
        loss_fn(model(*args), y).backward()
        optimizer.step()
        on_step()
        scheduler.step()


def loop_accumulation(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    optimizer.zero_grad()
    for i, (args, y) in enumerate(batches):
        loss = loss_fn(model(*args), y) / 2
        loss.backward()
        if i % 2 == 1:
            optimizer.step()
            on_step()
            optimizer.zero_grad()


def loop_clip_norm(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss_fn(model(*args), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        on_step()


def loop_clip_value(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss_fn(model(*args), y).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.01)
        optimizer.step()
        on_step()


def loop_autocast(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(*args), y)
        loss.backward()
        optimizer.step()
        on_step()


def loop_scaler(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for args, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_fn(model(*args), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        on_step()


def loop_scaler_clip(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for args, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_fn(model(*args), y)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        on_step()


def loop_evaluation(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss_fn(model(*args), y).backward()
        optimizer.step()
        on_step()
        model.eval()
        with torch.no_grad():
            for other, target in batches:
                loss_fn(model(*other), target)
        model.train()


def loop_evaluation_with_grad(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(*args), y)
        model.eval()
        seen = [loss_fn(model(*other), target).item() for other, target in batches]
        model.train()
        loss.backward()
        optimizer.step()
        on_step()
        assert len(seen) == len(batches)


def loop_compiled(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    compiled = torch.compile(model, backend="aot_eager")
    loop_plain(compiled, optimizer, loss_fn, batches, on_step)


def loop_mean_of_none(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        losses = loss_fn(model(*args), y)
        losses.mean().backward()
        optimizer.step()
        on_step()


def loop_l2(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(*args), y)
        loss = loss + 0.05 * sum(p.square().sum() for p in model.parameters())
        loss.backward()
        optimizer.step()
        on_step()


def loop_skip_not_finite(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(*args), y)
        loss.backward()
        if not torch.isfinite(loss):
            continue
        optimizer.step()
        on_step()


def loop_closure(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:

        def closure(args=args, y=y):
            optimizer.zero_grad()
            loss = loss_fn(model(*args), y)
            loss.backward()
            return loss

        optimizer.step(closure)
        on_step()


def loop_two_optimizers(model, optimizers, loss_fn, batches, on_step: OnStep) -> None:
    first, second = optimizers
    for args, y in batches:
        first.zero_grad()
        second.zero_grad()
        loss_fn(model(*args), y).backward()
        first.step()
        second.step()
        on_step()


def loop_two_forwards(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for (x,), y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y) + 0.5 * loss_fn(model(x.flip(-1)), y)
        loss.backward()
        optimizer.step()
        on_step()


def loop_flat(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for args, y in batches:
        optimizer.zero_grad()
        logits = model(*args)
        loss_fn(logits.reshape(-1, logits.shape[-1]), y.reshape(-1)).backward()
        optimizer.step()
        on_step()


def loop_logits(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for kwargs, y in batches:
        optimizer.zero_grad()
        loss_fn(model(**kwargs).logits, y).backward()
        optimizer.step()
        on_step()


def loop_logits_flat(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for kwargs, y in batches:
        optimizer.zero_grad()
        logits = model(**kwargs).logits
        loss_fn(logits.view(-1, logits.shape[-1]), y.view(-1)).backward()
        optimizer.step()
        on_step()


def loop_own_loss(model, optimizer, loss_fn, batches, on_step: OnStep) -> None:
    for kwargs, y in batches:
        optimizer.zero_grad()
        model(**kwargs, labels=y).loss.backward()
        optimizer.step()
        on_step()
