"""A model of R = 3 regions and T = 2 words, small enough to list all 9 paths, whose choices and rewards both learn."""

import torch

from captioning.estimators import all_paths, exact_expectation

R, T = 3, 2


class Toy:
    """First choice from `first`, second from the row of `second` that the first one names; likewise the rewards."""

    def __init__(self, seed=1):
        generator = torch.Generator().manual_seed(seed)
        self.first, self.second, self.gain, self.gains = (
            torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
            for shape in ((R,), (R, R), (R,), (R, R))
        )
        self.parameters = [self.first, self.second, self.gain, self.gains]

    def log_probabilities(self, paths):
        """(P, T) of each choice."""
        one, two = paths.T
        return torch.stack([self.first.log_softmax(-1)[one], self.second.log_softmax(-1)[one, two]], -1)

    def rewards(self, paths):
        """(P, T); log-likelihoods, so negative."""
        one, two = paths.T
        return torch.stack([-self.gain.exp()[one], -self.gains.exp()[one, two]], -1)

    def every(self, paths):
        """(P, T, R) log-probabilities and log-likelihoods of all choices at each step of the paths."""
        one = paths[:, 0]
        logs = [self.first.log_softmax(-1).expand(len(paths), R), self.second.log_softmax(-1)[one]]
        said = [-self.gain.exp().expand(len(paths), R), -self.gains.exp()[one]]
        return torch.stack(logs, 1), torch.stack(said, 1)

    def entropies(self, paths):
        """(P, T) of the distribution that each choice was drawn from."""
        of_first, of_second = (
            -(scores.softmax(-1) * scores.log_softmax(-1)).sum(-1) for scores in (self.first, self.second)
        )
        return torch.stack([of_first.expand(len(paths)), of_second[paths[:, 0]]], -1)

    def exact(self, rewards=None):
        """The gradient of the exact expected reward."""
        paths = all_paths(R, T)
        rewards = self.rewards(paths) if rewards is None else rewards(paths)
        return torch.autograd.grad(
            exact_expectation(self.log_probabilities(paths), rewards), self.parameters, allow_unused=True
        )

    def weighted(self, loss_of_path):
        """The gradient of Σ_paths π(path) · −loss(path), π held fixed: the expectation of an estimator."""
        paths = all_paths(R, T)
        chances = self.log_probabilities(paths).sum(-1).exp().detach()
        return torch.autograd.grad(-(chances * loss_of_path(paths)).sum(), self.parameters, allow_unused=True)
