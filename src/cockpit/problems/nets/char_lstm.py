"""A character-level language model: two LSTM layers that carry their state from batch to batch."""

import math

from torch import Tensor, nn

from cockpit.core.errors import CockpitError
from cockpit.problems.nets.init import glorot_uniform, seeded

State = tuple[Tensor, Tensor]
VOCABULARY = 83
WIDTH = 128
DROPOUT = 0.2


class CharLSTM(nn.Module):
    """Embedding, two LSTM layers, a linear layer; a batch continues the text of the one before it."""

    def __init__(self, vocabulary: int = VOCABULARY, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)
        self.dropout = nn.Dropout(DROPOUT)
        self.states: list[State] | None = None  # of each layer, after the last batch

    def begin(self) -> None:
        """Forget the text read so far."""
        self.states = None

    def forward(self, characters: Tensor) -> Tensor:
        """Map characters [N, T] to logits of those that follow, [N, T, vocabulary]."""
        before = self._states(len(characters))
        after: list[State] = []
        hidden = self.embedding(characters)
        for layer, state in zip(self.layers, before, strict=True):
            hidden, (output, cell) = layer(self.dropout(hidden), state)
            hidden = self.dropout(hidden)  # so dropout acts twice between layers
            after.append((output.detach(), cell.detach()))
        self.states = after
        logits: Tensor = self.head(hidden)
        return logits

    def _states(self, rows: int) -> list[State] | list[None]:
        """What the batch starts from."""
        if self.states is None:
            return [None for _ in self.layers]
        known = self.states[0][0].shape[1]
        if known != rows:
            raise CockpitError(
                f"the batch has {rows} rows of text, the state that it continues {known}; "
                "keep the batch size, or call begin() where another text begins"
            )
        return self.states


def char_lstm(seed: int) -> nn.Module:
    """Build the model, with one trained bias vector per layer: the second of torch's two stays at zero."""
    with seeded(seed):
        model = CharLSTM()
        glorot_uniform(model.embedding.weight)
        glorot_uniform(model.head.weight)
        _uniform(model.head.bias, fans=2 * len(model.head.bias))
        for layer in model.layers:
            assert isinstance(layer, nn.LSTM)
            _start(layer)
    return model


def begin(model: nn.Module) -> None:
    """Forget the text that a model, or one that it wraps, has read."""
    for module in model.modules():
        if isinstance(module, CharLSTM):
            module.begin()


def _start(layer: nn.LSTM) -> None:
    """Weights by Glorot's rule for one matrix from input and state to four gates; an open forget gate."""
    width = layer.hidden_size
    from_input, from_state, bias, second = layer.parameters()
    for weight in (from_input, from_state):
        _uniform(weight, fans=layer.input_size + width + 4 * width)
    nn.init.zeros_(bias)
    nn.init.ones_(bias.detach()[width : 2 * width])
    nn.init.zeros_(second).requires_grad_(False)


def _uniform(weight: Tensor, fans: int) -> None:
    """Glorot's uniform distribution with the sum of both fans given."""
    bound = math.sqrt(6 / fans)
    nn.init.uniform_(weight, -bound, bound)
