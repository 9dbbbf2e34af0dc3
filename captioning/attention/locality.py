"""Locality: whether a query sees all keys or a window of them. Independent of soft and hard."""

from torch import Tensor, nn


class Global(nn.Module):
    """Every available key."""

    def forward(self, scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(B, N, R) scores and mask, unchanged."""
        return scores, mask


LOCALITY: dict[str, type[nn.Module]] = {"global": Global}
