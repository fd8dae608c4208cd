"""The judge in PyTorch: the embedded model, whose upper layers read prompt and passage side by side.

The lower layers are the embedded model's and stay as they are: they read each text alone, so a prompt is read
once for all passages. The upper layers start as the embedded model's. Each token attends to its own text, and
to the other text through a gate for each head, almost closed at first; the score is the scaled cosine of both
means plus a small network that starts at zero. Training opens what helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from training.judge.base import HEADS, LAYERS, WIDTH, Tokens, Weights

ALONE = 3
"""How many layers read each text alone."""

EPSILON = 1e-12
CLOSED = -3.0
"""The gates at first: what is added to an attention's logit before the softmax."""
FEATURES = 3 * WIDTH
HIDDEN = 128
FIRST, LAST = 101, 102
MOST_PROMPT, MOST_PASSAGE = 64, 96
"""Tokens of each text that are read; of a longer one its beginning and its end."""


class Pairs(NamedTuple):
    """A batch: the lower layers' states of both texts, one after the other, `(pairs, tokens, WIDTH)`.

    `segment`, `(pairs, tokens)`, is 0 for the prompt, 1 for the passage, 2 for padding.
    """

    states: Tensor
    segment: Tensor


class Layer(nn.Module):
    """A transformer layer, with attention that takes a bias."""

    def __init__(self, weights: Weights, number: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        named = f"encoder.layer.{number}"
        qkv = [weights[f"layer.{number}.{one}"] for one in ("query", "key", "value")]
        biases = [weights[f"{named}.attention.self.{one}.bias"] for one in ("query", "key", "value")]
        self.qkv = _linear(np.concatenate(qkv, axis=1), np.concatenate(biases))
        self.attended = _linear(
            weights[f"layer.{number}.attended"], weights[f"{named}.attention.output.dense.bias"]
        )
        self.norm1 = _norm(weights, f"{named}.attention.output.LayerNorm")
        self.up = _linear(weights[f"layer.{number}.up"], weights[f"{named}.intermediate.dense.bias"])
        self.down = _linear(weights[f"layer.{number}.down"], weights[f"{named}.output.dense.bias"])
        self.norm2 = _norm(weights, f"{named}.output.LayerNorm")

    def forward(self, states: Tensor, bias: Tensor) -> Tensor:
        """Return the next states `(pairs, tokens, WIDTH)`; `bias` is added to the attention's logits."""
        pairs, tokens, _ = states.shape
        shape = (pairs, tokens, 3, HEADS, WIDTH // HEADS)
        query, key, value = self.qkv(states).view(shape).permute(2, 0, 3, 1, 4)
        weight = (query @ key.transpose(-1, -2) * (WIDTH // HEADS) ** -0.5 + bias).softmax(-1)
        attended = (weight @ value).transpose(1, 2).reshape(pairs, tokens, WIDTH)
        states = self.norm1(states + self._dropped(self.attended(attended)))
        return self.norm2(states + self._dropped(self.down(functional.gelu(self.up(states)))))

    def _dropped(self, states: Tensor) -> Tensor:
        return functional.dropout(states, self.dropout, self.training)


class Lower(nn.Module):
    """Word embeddings and the lower layers, for one text."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.word = nn.Embedding.from_pretrained(torch.tensor(weights["embeddings.word_embeddings.weight"]))
        # The embedded model reads one text, so its second type is not used.
        place = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self.place = nn.Embedding.from_pretrained(torch.tensor(place[: max(MOST_PROMPT, MOST_PASSAGE) + 2]))
        self.norm = _norm(weights, "embeddings.LayerNorm")
        self.layers = nn.ModuleList(Layer(weights, number, 0.0) for number in range(ALONE))

    def forward(self, words: Tensor) -> Tensor:
        """Return the states `(1, tokens, WIDTH)` from the word embeddings of the same shape."""
        states = self.norm(words + self.place(torch.arange(words.shape[1])))
        for layer in self.layers:
            states = layer(states, torch.zeros(()))
        return states


class Judge(nn.Module):
    """The upper layers and the score of a pair."""

    def __init__(self, weights: Weights, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(Layer(weights, number, dropout) for number in range(ALONE, LAYERS))
        self.gate = nn.Parameter(torch.full((LAYERS - ALONE, HEADS, 1, 1), CLOSED))
        self.scale = nn.Parameter(torch.tensor(8.0))
        self.bias = nn.Parameter(torch.tensor(-4.0))
        self.across = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, 1))
        nn.init.zeros_(self.across[2].weight)
        nn.init.zeros_(self.across[2].bias)

    def forward(self, states: Tensor, segment: Tensor) -> Tensor:
        """Return the logit of each pair; see `Pairs`."""
        other = (segment[:, None, :, None] != segment[:, None, None, :]).to(states.dtype)
        padding = (segment == 2)[:, None, None, :].to(states.dtype) * -1e4
        for layer, gate in zip(self.layers, self.gate, strict=True):
            states = layer(states, padding + other * gate)
        prompt, passage = (self._mean(states, segment == side) for side in (0, 1))
        both, apart = prompt * passage, (prompt - passage).abs()
        features = functional.dropout(
            torch.cat([both * 20, apart * 20, passage * 5], -1), self.dropout, self.training
        )
        return self.scale * both.sum(-1) + self.bias + self.across(features).squeeze(-1)

    def _mean(self, states: Tensor, is_in: Tensor) -> Tensor:
        weight = is_in.to(states.dtype)[..., None]
        mean = (states * weight).sum(1) / weight.sum(1)
        return mean / mean.norm(dim=-1, keepdim=True).clamp(min=EPSILON)


class Reader:
    """Texts as the lower layers read them, each once."""

    def __init__(self, weights: Weights) -> None:
        self._lower = Lower(weights).eval()
        self._tokens = Tokens()
        self._known: dict[tuple[str, int], Tensor] = {}

    @torch.no_grad()
    def states(self, text: str, most: int) -> Tensor:
        """Return the states `(tokens, WIDTH)` of at most `most` tokens, and of the special ones."""
        if (text, most) not in self._known:
            ids = torch.tensor([_cut(self._tokens(text), most)])
            self._known[text, most] = self._lower(self._lower.word(ids))[0].to(torch.float16)
        return self._known[text, most].float()

    def packed(self, texts: Sequence[tuple[str, str]]) -> Pairs:
        """Return prompts with their passages as one batch."""
        rows = [
            (self.states(prompt, MOST_PROMPT), self.states(passage, MOST_PASSAGE))
            for prompt, passage in texts
        ]
        longest = max(len(prompt) + len(passage) for prompt, passage in rows)
        states = torch.zeros(len(rows), longest, WIDTH)
        segment = torch.full((len(rows), longest), 2)
        for row, (prompt, passage) in enumerate(rows):
            both = len(prompt) + len(passage)
            states[row, :both] = torch.cat([prompt, passage])
            segment[row, : len(prompt)], segment[row, len(prompt) : both] = 0, 1
        return Pairs(states, segment)


def _cut(ids: Sequence[int], most: int) -> list[int]:
    if len(ids) > most:
        ids = [*ids[: most // 2], *ids[-(most - most // 2) :]]
    return [FIRST, *ids, LAST]


def _linear(weight: np.ndarray, bias: np.ndarray) -> nn.Linear:
    """Return a layer with these weights, `(in, out)` as the graph stores them."""
    linear = nn.Linear(*weight.shape)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor(weight.T))
        linear.bias.copy_(torch.tensor(bias))
    return linear


def _norm(weights: Weights, name: str) -> nn.LayerNorm:
    norm = nn.LayerNorm(WIDTH, eps=EPSILON)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor(weights[f"{name}.weight"]))
        norm.bias.copy_(torch.tensor(weights[f"{name}.bias"]))
    return norm
