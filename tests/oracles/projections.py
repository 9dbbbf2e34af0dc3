"""Slow, obvious twins of the sparse normalizers: a search through all supports, and a bisection."""

from itertools import combinations

import torch


def nearest_on_the_simplex(scores):
    """argmin ‖p − s‖ over the simplex for s (R,), by trying every support.

    On a support S the nearest point of the plane Σ p = 1 is s_S minus the mean excess; the minimum over the simplex is
    the nearest of those that are not negative.
    """
    best, least = None, torch.inf
    for size in range(1, len(scores) + 1):
        for support in map(list, combinations(range(len(scores)), size)):
            point = torch.zeros_like(scores)
            point[support] = scores[support] - (scores[support].sum() - 1) / size
            distance = (point - scores).square().sum()
            if (point >= 0).all() and distance < least:
                best, least = point, distance
    return best


def entmax15_by_bisection(scores):
    """[s / 2 − t]₊² for s (R,), with the t at which it sums to one found by halving an interval."""
    halved = scores / 2
    low, high = halved.max() - 1, halved.max()
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (halved - middle).clamp(min=0).square().sum() > 1 else (low, middle)
    return (halved - low).clamp(min=0).square()
