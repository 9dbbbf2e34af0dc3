import pytest
import torch

from captioning.encoders.small import CellEncoder
from captioning.errors import ConfigError, ShapeError

SIDE, CELL = 5, 8


@pytest.fixture
def encoder() -> CellEncoder:
    torch.manual_seed(0)
    return CellEncoder(rows=SIDE, columns=SIDE, cell=CELL, channels=3, content=7)


def pixels_of(images: int) -> torch.Tensor:
    return torch.randn(images, 3, SIDE * CELL, SIDE * CELL, generator=torch.Generator().manual_seed(1))


def test_regions_have_the_shape_that_the_encoder_tells(encoder: CellEncoder) -> None:
    features = encoder(pixels_of(2))
    assert features.regions.shape == (2, encoder.rows * encoder.columns, encoder.width)
    assert (features.rows, features.columns) == (SIDE, SIDE)
    assert encoder.preprocessing.size == SIDE * CELL


def test_a_region_sees_its_own_cell_and_nothing_else(encoder: CellEncoder) -> None:
    pixels = pixels_of(1)
    before = encoder(pixels).regions[0]
    for cell in range(SIDE * SIDE):
        row, column = (CELL * place for place in divmod(cell, SIDE))
        changed = pixels.clone()
        changed[..., row : row + CELL, column : column + CELL] += 1
        moved = (encoder(changed).regions[0] != before).any(dim=-1)
        assert moved.nonzero().flatten().tolist() == [cell]


def test_every_pixel_of_a_cell_is_seen(encoder: CellEncoder) -> None:
    pixels = pixels_of(3).requires_grad_()
    encoder(pixels).regions.sum().backward()
    assert (pixels.grad.abs().sum(dim=(0, 1)) > 0).float().mean() > 0.9  # a ReLU hides few


def test_equal_cells_differ_in_their_place_alone_and_the_place_says_row_and_column(
    encoder: CellEncoder,
) -> None:
    cell = torch.randn(1, 3, CELL, CELL).repeat(1, 1, SIDE, SIDE)
    content, place = encoder(cell).regions[0].split([7, 2 * SIDE + 2], dim=-1)
    torch.testing.assert_close(content, content[:1].expand_as(content))
    rows, columns, numbers = place.split([SIDE, SIDE, 2], dim=-1)
    cells = [divmod(cell, SIDE) for cell in range(SIDE * SIDE)]
    assert list(zip(rows.argmax(-1).tolist(), columns.argmax(-1).tolist(), strict=True)) == cells
    torch.testing.assert_close((numbers + 1) * (SIDE - 1) / 2, torch.tensor(cells, dtype=torch.float32))


def test_the_mean_region_does_not_know_where_anything_is(encoder: CellEncoder) -> None:
    pixels = pixels_of(1)
    cells = torch.nn.functional.unfold(pixels, CELL, stride=CELL)  # (1, 3 * CELL * CELL, R)
    shuffled = cells[..., torch.randperm(SIDE * SIDE, generator=torch.Generator().manual_seed(2))]
    moved = torch.nn.functional.fold(shuffled, pixels.shape[-2:], CELL, stride=CELL)
    assert not torch.equal(pixels, moved)
    before, after = (encoder(picture).regions.mean(dim=1) for picture in (pixels, moved))
    torch.testing.assert_close(before, after)


def test_it_learns_with_the_decoder_and_its_places_do_not(encoder: CellEncoder) -> None:
    encoder(pixels_of(2)).regions.square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    assert "place" not in encoder.state_dict()


def test_the_fingerprint_follows_the_weights(encoder: CellEncoder) -> None:
    twin = CellEncoder(**encoder.to_dict())
    assert twin.fingerprint() != encoder.fingerprint()
    twin.load_state_dict(encoder.state_dict())
    assert twin.fingerprint() == encoder.fingerprint()
    assert torch.equal(twin(pixels_of(2)).regions, encoder(pixels_of(2)).regions)


def test_what_does_not_fit_is_told(encoder: CellEncoder) -> None:
    with pytest.raises(ShapeError, match=r"pixels: expected \(B, 3, 40, 40\), got \(2, 3, 40, 32\)"):
        encoder(torch.zeros(2, 3, 40, 32))
    with pytest.raises(ConfigError, match=r"got 5 x 6 cells of 8"):
        CellEncoder(rows=5, columns=6, cell=8)
