"""Positions: closed forms, loops, and that attention on content alone is blind to order until one of them is added."""

import math

import pytest
import torch
from torch import nn

from captioning.attention import GRID_POSITIONS, POSITIONS, MultiHeadAttention, RelativePositions, masks
from captioning.attention.positions import sinusoidal
from captioning.errors import ConfigError, ShapeError

B, T, D, ROWS, COLUMNS, LONGEST = 2, 7, 11, 3, 5, 13
HN, W, N, REACH = 3, 17, 19, 2


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def make(name, table=POSITIONS, width=D):
    return table[name](width, longest=LONGEST).double()


def self_attention(relative=None, width=D):
    heads = HN if relative else 1
    attention = MultiHeadAttention(query_width=width, heads=heads, width=heads * W, relative=relative)
    return attention.double()


def permuted(attend, x):
    """Attend to the rows in another order, and put what comes out in the old one."""
    order = torch.randperm(x.shape[-2])
    return attend(x[:, order])[:, order.argsort()]


def test_self_attention_on_content_alone_is_permutation_equivariant():
    attention, x = self_attention(), draw(B, T, D)
    for need_weights in (True, False):
        output = attention(x, need_weights=need_weights)[0]
        torch.testing.assert_close(permuted(lambda x, n=need_weights: attention(x, need_weights=n)[0], x), output)
    for positions in (make("none"), lambda x: make("none", GRID_POSITIONS)(x, 1, T)):
        torch.testing.assert_close(permuted(lambda x, p=positions: attention(p(x))[0], x), attention(positions(x))[0])


@pytest.mark.parametrize("name", sorted({*POSITIONS} - {"none"}))
def test_each_kind_of_word_positions_breaks_it(name):
    x = draw(B, T, D)
    if name == "relative":
        attention = self_attention(RelativePositions(W, reach=REACH))
        attend = lambda x: attention(x)[0]  # noqa: E731
    else:
        attention, positions = self_attention(), make(name)
        attend = lambda x: attention(positions(x))[0]  # noqa: E731
    assert (permuted(attend, x) - attend(x)).abs().max() > 1e-4


@pytest.mark.parametrize("name", sorted({*GRID_POSITIONS} - {"none"}))
@pytest.mark.parametrize("axis", [0, 1])
def test_each_kind_of_grid_positions_tells_rows_and_columns_apart(name, axis):
    attention, positions, cells = self_attention(), make(name, GRID_POSITIONS), draw(B, ROWS, COLUMNS, D)

    def attend(cells):
        return attention(positions(cells.flatten(1, 2), ROWS, COLUMNS))[0].unflatten(1, (ROWS, COLUMNS))

    flipped = attend(cells.flip(1 + axis)).flip(1 + axis)
    assert (flipped - attend(cells)).abs().max() > 1e-4


@pytest.mark.parametrize("width", [1, 2, D])
def test_sinusoids_have_their_closed_form(width):
    found = make("sinusoidal", width=width)(torch.zeros(B, T, width).double(), start=29)
    for t in range(T):
        for component in range(width):
            angle = (29 + t) / 10000 ** (2 * (component // 2) / width)
            expected = math.cos(angle) if component % 2 else math.sin(angle)
            assert found[1, t, component].item() == pytest.approx(expected, abs=1e-12)


def test_moving_on_rotates_each_pair_of_sinusoids():
    width, shift = 10, 23
    here, there = (sinusoidal(torch.arange(T).double() + start, width) for start in (0, shift))
    turn = shift / 10000 ** (torch.arange(0, width, 2).double() / width)
    sine, cosine = here[:, 0::2], here[:, 1::2]
    torch.testing.assert_close(there[:, 0::2], sine * turn.cos() + cosine * turn.sin())
    torch.testing.assert_close(there[:, 1::2], cosine * turn.cos() - sine * turn.sin())


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_a_cell_has_its_rows_and_its_columns_vector(name):
    positions = make(name, GRID_POSITIONS)
    grid = positions(torch.zeros(B, ROWS * COLUMNS, D).double(), ROWS, COLUMNS).unflatten(1, (ROWS, COLUMNS))
    for row in range(ROWS):
        for column in range(COLUMNS):
            if name == "sinusoidal":
                vectors = [sinusoidal(torch.tensor(row).double(), 5), sinusoidal(torch.tensor(column).double(), 6)]
                expected = torch.cat(vectors)
            else:
                expected = positions.row_vectors[row] + positions.column_vectors[column]
            torch.testing.assert_close(grid[1, row, column], expected)


@pytest.mark.parametrize("name", ["none", "sinusoidal", "learned"])
def test_word_by_word_has_the_places_of_the_whole(name):
    positions, x = make(name), draw(B, T, D)
    pieces = [positions(x[:, start : start + 1], start=start) for start in range(T)]
    torch.testing.assert_close(torch.cat(pieces, 1), positions(x))
    if name == "learned":
        torch.testing.assert_close(positions(x) - x, positions.vectors[:T].expand(B, -1, -1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_places_are_counted_in_float32(dtype):
    """Beyond 256 bfloat16 holds only even numbers, and beyond 2048 float16 does."""
    start = {torch.bfloat16: 256, torch.float16: 2048}[dtype]
    found = POSITIONS["sinusoidal"](D)(torch.zeros(T, D, dtype=dtype), start=start)
    assert found.dtype == dtype
    expected = sinusoidal(torch.arange(start, start + T).double(), D)
    torch.testing.assert_close(found.double(), expected, atol=5e-3, rtol=0)


def relative_by_loops(attention, x):
    """Equations 3 and 4 of Shaw, Uszkoreit and Vaswani, pair by pair, causal."""
    relative, rows = attention.relative, []
    project = [
        layer(x).unflatten(-1, (HN, W)) for layer in (attention.query_map, attention.key_map, attention.value_map)
    ]
    for i in range(len(x)):
        heads = []
        for head in range(HN):
            q, k, v = (each[:, head] for each in project)
            places = [max(-relative.reach, min(relative.reach, j - i)) + relative.reach for j in range(i + 1)]
            scores = torch.stack([q[i] @ (k[j] + relative.key_vectors[places[j]]) / W**0.5 for j in range(i + 1)])
            weights = scores.softmax(0)
            heads.append(sum(weights[j] * (v[j] + relative.value_vectors[places[j]]) for j in range(i + 1)))
        rows.append(attention.output_map(torch.cat(heads)))
    return torch.stack(rows)


@pytest.mark.parametrize("length", [1, REACH + 1, N])
def test_relative_positions_equal_a_loop_on_short_and_on_long_sequences(length):
    """Of N words most pairs are further apart than the reach: their distances clip."""
    attention, x = self_attention(RelativePositions(W, reach=REACH)), draw(length, D).requires_grad_()
    output, expected = attention(x, mask=masks.causal_mask(length))[0], relative_by_loops(attention, x)
    torch.testing.assert_close(output, expected)
    leaves = [x, attention.relative.key_vectors, attention.relative.value_vectors]
    for one, other in zip(
        torch.autograd.grad(output.sin().sum(), leaves), torch.autograd.grad(expected.sin().sum(), leaves), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-7)


def test_distances_are_of_the_last_queries_and_clip():
    relative = RelativePositions(W, reach=REACH)
    assert (relative.distances(1, 1) == REACH).all()
    assert relative.distances(2, 5).tolist() == [[0, 0, 1, 2, 3], [0, 0, 0, 1, 2]]
    assert relative.distances(3, 3).tolist() == [[2, 3, 4], [1, 2, 3], [0, 1, 2]]


def test_without_vectors_relative_positions_are_plain_attention():
    attention, x = self_attention(RelativePositions(W, reach=REACH)), draw(B, T, D)
    for vectors in (attention.relative.key_vectors, attention.relative.value_vectors):
        nn.init.zeros_(vectors)
    plain = MultiHeadAttention(query_width=D, heads=HN, width=HN * W).double()
    plain.load_state_dict(attention.state_dict(), strict=False)
    torch.testing.assert_close(attention(x)[0], plain(x)[0])


def test_relative_positions_know_only_distances():
    """The same words further on in a longer text: windows far from its ends come out alike."""
    attention, x = self_attention(RelativePositions(W, reach=REACH)), draw(1, T, D)
    window = masks.causal_mask(N) & masks.window_mask(N, REACH)
    output, _ = attention(torch.cat([draw(1, 3, D), x, draw(1, 2, D), x], 1), mask=window)
    torch.testing.assert_close(output[:, 3 + REACH : 3 + T], output[:, 5 + T + REACH :])


def test_errors_name_what_does_not_fit():
    with pytest.raises(ShapeError, match="at most longest = 13 words, got 14"):
        make("learned")(draw(B, 1, D), start=LONGEST)
    for rows, columns, text in ((LONGEST + 1, 1, "13 rows, got 14"), (1, LONGEST + 1, "13 columns, got 14")):
        with pytest.raises(ShapeError, match=text):
            make("learned", GRID_POSITIONS)(draw(B, LONGEST + 1, D), rows, columns)
    for name in ("sinusoidal", "learned"):
        with pytest.raises(ShapeError, match=r"inputs: expected \(..., T, D\) with D = 11, got \(2, 7, 10\)"):
            make(name)(draw(B, T, D - 1))
        with pytest.raises(ShapeError, match=r"cells: expected \(..., R, D\) with R = 15, D = 11, got \(2, 14, 11\)"):
            make(name, GRID_POSITIONS)(draw(B, 14, D), ROWS, COLUMNS)
    with pytest.raises(ConfigError, match="longest of at least 1, got 0"):
        POSITIONS["learned"](D, longest=0)
    with pytest.raises(ConfigError, match="reach of at least 0, got -1"):
        RelativePositions(W, reach=-1)
