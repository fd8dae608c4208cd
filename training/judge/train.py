"""Train the judge on worlds."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.judge.model import Judge, Reader
from training.judge.worlds import Group, Nearness, World, groups

RATE = 5e-5
NEW_PARTS = 20.0
"""How much faster gates, scale and the new network learn than what starts trained."""
WARM_UP = 60
DECAY = 0.01
AT_ONCE = 6
"""Prompts a step."""
SORTED_BY = 256
"""Prompts whose lengths are sorted together, so that a batch has little padding."""
LIST_WEIGHT = 0.8
AVERAGED = 0.995
"""Share of the former average that each step keeps; the average of the weights is the result."""


def train(
    judge: Judge,
    worlds: Sequence[World],
    nearness: Nearness,
    reader: Reader,
    *,
    passes: float,
    seed: int,
    report: Callable[[str], None] = print,
) -> Judge:
    """Return the averaged judge after so many passes over the prompts of the worlds."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    prompts = sum(len(world.prompts) for world in worlds)
    steps = int(passes * math.ceil(prompts / AT_ONCE))
    optimizer, average = _optimizer(judge), copy.deepcopy(judge)
    judge.train()
    loss_so_far = 0.0
    for step, batch in zip(range(steps), _batches(worlds, nearness, chance), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = group["times"] * RATE * min(1.0, (step + 1) / WARM_UP) * max(0.03, 1 - step / steps)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = _loss(judge, batch, reader)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
        optimizer.step()
        _average(average, judge, min(AVERAGED, (step + 1) / (step + 10)))
        loss_so_far += 0.02 * (loss.item() - loss_so_far)
        if step % 50 == 49:
            report(f"step {step + 1} of {steps}: loss {loss_so_far / (1 - 0.98 ** (step + 1)):.3f}")
    return average.eval()


@torch.no_grad()
def mean_of(judges: Sequence[Judge]) -> Judge:
    """Return a judge with the mean weights of runs that began alike, which errs less than each of them."""
    mean = copy.deepcopy(judges[0])
    states = [each.state_dict() for each in judges]
    mean.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in states[0]})
    return mean.eval()


def _optimizer(judge: Judge) -> torch.optim.Optimizer:
    named = [(name, each) for name, each in judge.named_parameters() if each.requires_grad]
    new = {"gate", "scale", "bias"}
    is_new = [name in new or name.startswith("across") for name, _ in named]
    parts = [
        {
            "params": [each for (_, each), fresh in zip(named, is_new, strict=True) if fresh == kind],
            "times": times,
        }
        for kind, times in ((False, 1.0), (True, NEW_PARTS))
    ]
    return torch.optim.AdamW(parts, lr=RATE, weight_decay=DECAY)


def _batches(worlds: Sequence[World], nearness: Nearness, chance: random.Random) -> Iterator[Sequence[Group]]:
    """Yield batches of prompts of similar length, forever."""
    while True:
        made = groups(worlds, nearness, chance)
        chance.shuffle(made)
        for start in range(0, len(made), SORTED_BY):
            some = sorted(made[start : start + SORTED_BY], key=_length)
            batches = [some[at : at + AT_ONCE] for at in range(0, len(some), AT_ONCE)]
            chance.shuffle(batches)
            yield from batches


def _length(group: Group) -> int:
    return min(len(group.prompt), 300) + min(max(map(len, (*group.right, *group.wrong))), 450)


def _loss(judge: Judge, batch: Sequence[Group], reader: Reader) -> Tensor:
    """Return the loss of single pairs, and of choosing a right passage, or none, from each group."""
    pairs = [(group.prompt, passage) for group in batch for passage in (*group.right, *group.wrong)]
    is_right = torch.tensor(
        [float(at < len(group.right)) for group in batch for at in range(len(group.right) + len(group.wrong))]
    )
    logits = judge(*reader.packed(pairs)).float()
    single = functional.binary_cross_entropy_with_logits(logits, is_right, pos_weight=torch.tensor(2.0))
    chosen, start = [], 0
    for group in batch:
        count = len(group.right) + len(group.wrong)
        # The last option is "none of them", whose logit is 0.
        options = functional.log_softmax(functional.pad(logits[start : start + count], (0, 1)), 0)
        chosen.append(-options[: len(group.right)].mean() if group.right else -options[-1])
        start += count
    return single + LIST_WEIGHT * torch.stack(chosen).mean()


@torch.no_grad()
def _average(average: nn.Module, judge: nn.Module, kept: float) -> None:
    for mine, new in zip(average.parameters(), judge.parameters(), strict=True):
        if new.requires_grad:
            mine.lerp_(new, 1 - kept)
