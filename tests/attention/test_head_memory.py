"""Keys and values projected once: for all captions of an image, and step by step against the whole sequence."""

import pytest
import torch

from captioning.attention import masks
from tests.attention.multihead_cases import (
    DK,
    DQ,
    DV,
    KINDS,
    PATHS,
    B,
    K,
    N,
    R,
    assert_same_gradients,
    causal_self,
    cross,
    draw,
    some_mask,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@PATHS
def test_an_image_is_remembered_once_for_all_captions_beams_and_steps(need_weights):
    attention, queries = cross(), draw(B, K, N, DQ)
    keys, values, seen = draw(B, R, DK), draw(B, R, DV), masks.padding_mask(torch.tensor([4, 9]), R)
    memory = attention.remember(keys, values, seen)
    together, weights = attention.attend(queries.flatten(1, 2), memory, need_weights=need_weights)
    for caption in range(K):
        for t in range(N):
            query = queries[:, caption, t : t + 1]
            expected, alone = attention(query, keys, values, seen.unsqueeze(1))
            row = caption * N + t
            torch.testing.assert_close(together[:, row : row + 1], expected)
            torch.testing.assert_close(attention.attend(query, memory)[0], expected)
            if need_weights:
                torch.testing.assert_close(weights[:, :, row : row + 1], alone)
    first, _ = attention.attend(queries[:1, 0], memory, need_weights=need_weights)
    torch.testing.assert_close(first, together[:1, :N])
    chosen = torch.tensor([1, 0, 1])
    selected, _ = attention.attend(queries[chosen, 0], memory.select(chosen), need_weights=need_weights)
    torch.testing.assert_close(selected, together[chosen, :N])


def test_a_mask_beside_the_memorys_own_narrows_it():
    attention, queries, keys, values = cross(), draw(B, N, DQ), draw(B, R, DK), draw(B, R, DV)
    seen, windows = masks.padding_mask(torch.tensor([4, 9]), R), some_mask(N, R)
    expected, _ = attention(queries, keys, values, seen.unsqueeze(1) & windows)
    memory = attention.remember(keys, values, seen)
    torch.testing.assert_close(attention.attend(queries, memory, windows)[0], expected)
    windows[2] = torch.arange(R) >= 4  # The first image, of four regions, leaves query 2 none of them.
    for need_weights in (True, False):
        output, _ = attention.attend(queries, memory, windows, need_weights=need_weights)
        torch.testing.assert_close(output[0, 2], attention.output_map.bias)
        torch.testing.assert_close(output[:, 3:], expected[:, 3:])


@PATHS
@KINDS
@pytest.mark.parametrize("pieces", [(1,) * N, (3, 1, 2, 1), (N,)])
def test_step_by_step_equals_the_whole_sequence(need_weights, reach, pieces):
    attention, x = causal_self(reach), draw(B, K, N, DQ)
    whole, weights = attention(x, mask=masks.causal_mask(N))
    cache, outputs = None, []
    for piece in x.split(pieces, -2):
        output, looked, cache = attention.extend(piece, cache, need_weights=need_weights)
        done = cache.keys.shape[-2]
        if need_weights:
            torch.testing.assert_close(looked, weights[..., done - piece.shape[-2] : done, :done])
        outputs.append(output)
    torch.testing.assert_close(torch.cat(outputs, -2), whole)
    assert_same_gradients(torch.cat(outputs, -2), whole, [x])


@KINDS
def test_caches_follow_beam_parents_and_images(reach):
    attention, x = causal_self(reach), draw(B, K, N, DQ)
    _, _, cache = attention.extend(x[..., :4, :])
    parents, images = torch.tensor([[2, 2, 0, 1], [1, 0, 0, 2]]), torch.tensor([1])
    new = draw(1, 4, 1, DQ)
    output, _, _ = attention.extend(new, cache.reorder(parents).select(images))
    for row, parent in enumerate(parents[1].tolist()):
        caption = torch.cat([x[1, parent, :4], new[0, row]])
        torch.testing.assert_close(output[0, row, 0], attention(caption, mask=masks.causal_mask(5))[0][-1])


@PATHS
@KINDS
def test_a_query_that_a_mask_leaves_no_key_takes_nothing_whatever_it_holds(need_weights, reach):
    attention, x = causal_self(reach), draw(B, N, DQ)
    _, _, cache = attention.extend(x)
    queries, mask = draw(B, N, DQ).detach(), masks.causal_mask(N)
    mask[2], queries[:, 2] = False, torch.nan
    output, weights = attention.attend(queries.requires_grad_(), cache, mask, need_weights=need_weights)
    torch.testing.assert_close(output[:, 2], attention.output_map.bias.expand(B, -1))
    assert weights is None or (weights[:, :, 2] == 0).all()
    gradients = torch.autograd.grad(output.sin().sum(), [queries, x])
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert (gradients[0][:, 2] == 0).all()
