"""Reading with given maps: own ones change nothing, even ones make known other decoders, others are used."""

import pytest
import torch

from captioning.attention.selection import Argmax
from captioning.build import build_decoder
from captioning.config import AttentionConfig, DecoderConfig, ModelConfig
from captioning.decoders.given_maps import on_the_simplex, read_with_maps, read_with_own_maps, shown_maps
from captioning.decoders.show_attend_tell import GATE
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures

B, M, ROWS, COLUMNS, D, T, V, E, H, HEADS, LAYERS = 3, 2, 1, 7, 5, 11, 13, 17, 20, 5, 2
R = ROWS * COLUMNS
IS_WORD = torch.arange(T) < torch.tensor([[11, 3], [6, 0], [2, 1]]).unsqueeze(-1)
MODELS = {
    "show_attend_tell": {},
    "show_attend_tell, vector gate": {"gate": "vector"},
    "show_attend_tell, local_m": {"attention": {"locality": "local_m", "window": 1}},
    "show_attend_tell, sparsemax": {"attention": {"normalizer": "sparsemax"}},
    "top_down": {},
    "top_down, local_p": {"attention": {"locality": "local_p", "window": 1}},
    "adaptive": {},
    "transformer": {},
}
every_model = pytest.mark.parametrize("name", MODELS)


def make(name, **changed):
    settings = {**MODELS.get(name, {}), **changed}
    attention = AttentionConfig(**settings.pop("attention", {}))
    if "transformer" not in name:
        attention = AttentionConfig(**{**vars(attention), "width": 19})
    decoder = DecoderConfig(
        name=name.split(",")[0], state_width=H, word_width=E, heads=HEADS, layers=LAYERS, **settings
    )
    torch.manual_seed(5)
    made = build_decoder(ModelConfig(attention=attention, decoder=decoder), region_width=D, vocabulary_size=V)
    return made.double().eval()


def example():
    torch.manual_seed(7)
    return ImageFeatures(torch.randn(B, R, D).double(), ROWS, COLUMNS), torch.randint(3, V, (B, M, T)), IS_WORD


def looks_of(decoder, kind):
    """One row a word, all of a kind."""
    _, own = read_with_own_maps(decoder, *example())
    return on_the_simplex(torch.rand(own.shape, generator=torch.Generator().manual_seed(3)).to(own) * kind)


@every_model
def test_a_decoders_own_maps_change_nothing(name):
    decoder = make(name)
    reading, looks = read_with_own_maps(decoder, *example())
    assert looks.shape == (int(IS_WORD.sum()), LAYERS * HEADS if name == "transformer" else 1, R)
    torch.testing.assert_close(looks.sum(-1), torch.ones(looks.shape[:2]).double())
    torch.testing.assert_close(reading.logits, decoder(*example()).logits)
    again = read_with_maps(decoder, *example(), looks)
    torch.testing.assert_close(again.logits, reading.logits)
    torch.testing.assert_close(again.weights, reading.weights)
    torch.testing.assert_close(shown_maps(decoder, looks), on_the_simplex(reading.weights))


@every_model
def test_other_maps_are_used_and_forgotten_again(name):
    decoder = make(name)
    given = looks_of(decoder, torch.tensor([1.0, 0, 0, 0, 0, 2, 0]))
    before = decoder(*example())
    changed = read_with_maps(decoder, *example(), given)
    assert not torch.allclose(changed.logits, before.logits, atol=1e-6)
    torch.testing.assert_close(on_the_simplex(changed.weights), shown_maps(decoder, given))
    torch.testing.assert_close(decoder(*example()).logits, before.logits)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "adaptive"])
def test_a_cell_without_weight_is_not_seen(name):
    """But by what sees the mean region, which is kept the same. (A sentinel's share depends on all cells' scores.)"""
    decoder, (features, inputs, is_word) = make(name), example()
    given = looks_of(decoder, torch.tensor([1.0, 1, 0, 1, 1, 0, 1]))
    swapped = features.regions.clone()
    swapped[:, [2, 5]] = features.regions[:, [5, 2]] + torch.tensor([1.0, -1.0]).double().view(2, 1)
    other = ImageFeatures(swapped, ROWS, COLUMNS)
    one, two = (read_with_maps(decoder, each, inputs, is_word, given) for each in (features, other))
    torch.testing.assert_close(one.logits, two.logits)


def test_even_maps_are_the_uniform_normalizer():
    decoder = make("show_attend_tell")
    uniform = make("show_attend_tell", attention={"normalizer": "uniform"})
    uniform.load_state_dict(decoder.state_dict())
    even = torch.full((int(IS_WORD.sum()), 1, R), 1 / R).double()
    torch.testing.assert_close(read_with_maps(decoder, *example(), even).logits, uniform(*example()).logits)


def test_even_maps_are_a_transformer_whose_queries_are_zero():
    decoder, zero = make("transformer"), make("transformer")
    for layer in zero.layers:
        torch.nn.init.zeros_(layer.cross_attention.query_map.weight)
        torch.nn.init.zeros_(layer.cross_attention.query_map.bias)
    even = torch.full((int(IS_WORD.sum()), LAYERS * HEADS, R), 1 / R).double()
    torch.testing.assert_close(read_with_maps(decoder, *example(), even).logits, zero(*example()).logits)


def test_a_hard_choice_is_made_from_the_given_map():
    decoder = make("show_attend_tell")
    decoder.attention.selection = Argmax().eval()
    given = looks_of(decoder, torch.ones(R))
    reading = read_with_maps(decoder, *example(), given)
    assert torch.equal(reading.details["cell"], given[:, 0].argmax(-1))


def test_the_gate_is_reported_but_not_in_training():
    """The scalar one as it is: with the context's part taken away, only β = 0 would look the same."""
    decoder = make("show_attend_tell")
    with torch.no_grad():
        decoder.context_gate.weight.zero_()
        decoder.context_gate.bias.fill_(0.3)
    reading = decoder(*example())
    torch.testing.assert_close(reading.details[GATE], torch.full((int(IS_WORD.sum()),), 0.3).double().sigmoid())
    assert GATE not in decoder.train()(*example()).details
    assert GATE not in make("show_attend_tell", gate="none")(*example()).details


def test_without_attention_there_is_no_map_to_replace():
    decoder = make("mean_pool")
    _, looks = read_with_own_maps(decoder, *example())
    torch.testing.assert_close(looks.double(), torch.full_like(looks, 1 / R).double())
    with pytest.raises(ConfigError, match="expected a decoder with attention, got ShowAttendTell with MeanRegion"):
        read_with_maps(decoder, *example(), looks)
