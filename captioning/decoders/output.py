"""From state, context and previous word to the next word's logits."""

from torch import Tensor, nn

from captioning.tensors.precision import linear


class DeepOutput(nn.Module):
    """p(y_t) ∝ exp(L_o f(E y_{t-1} + L_h h_t + L_z ẑ_t)), f = tanh (the released code) or the identity (the paper).

    `embedding` ties L_o to the word vectors E.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        word_width: int,
        state_width: int,
        region_width: int,
        tanh: bool = True,
        dropout: float = 0.5,
        embedding: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        self.from_state = nn.Linear(state_width, word_width)
        self.from_context = nn.Linear(region_width, word_width, bias=False)
        self.activation = nn.Tanh() if tanh else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.vocabulary = _vocabulary_layer(word_width, vocabulary_size, embedding)

    def forward(self, word: Tensor, state: Tensor, context: Tensor) -> Tensor:
        """(..., E) previous words' vectors, (..., H) states, (..., D) gated contexts -> (..., V) logits."""
        return self.finish(self.unseeing(word, state) + linear(self.from_context, context))

    def unseeing(self, word: Tensor, state: Tensor) -> Tensor:
        """E y_{t-1} + L_h h_t, (..., E): what is the same whatever was seen."""
        return word + linear(self.from_state, state)

    def finish(self, hidden: Tensor) -> Tensor:
        """(..., E) the sum of all three -> (..., V) logits."""
        return linear(self.vocabulary, self.dropout(self.activation(hidden)))


class LinearOutput(nn.Module):
    """logits = L_o h_t: the widely copied port's shortcut."""

    def __init__(
        self,
        *,
        vocabulary_size: int,
        state_width: int,
        dropout: float = 0.5,
        embedding: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.vocabulary = _vocabulary_layer(state_width, vocabulary_size, embedding)

    def forward(self, word: Tensor, state: Tensor, context: Tensor) -> Tensor:
        """(..., H) states -> (..., V) logits; the other two are not looked at."""
        return linear(self.vocabulary, self.dropout(state))


def _vocabulary_layer(width: int, vocabulary_size: int, embedding: nn.Embedding | None) -> nn.Linear:
    layer = nn.Linear(width, vocabulary_size)
    nn.init.uniform_(layer.weight, -0.1, 0.1)
    nn.init.zeros_(layer.bias)
    if embedding is not None:
        layer.weight = embedding.weight
    return layer
