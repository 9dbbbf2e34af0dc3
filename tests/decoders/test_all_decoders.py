"""What holds for every decoder: whole = step by step, alone = in a batch, masked = absent, hypotheses keep apart."""

import dataclasses

import pytest
import torch

from captioning.build import DECODERS, build_decoder
from captioning.captioner import DecoderStep
from captioning.config import AttentionConfig, DecoderConfig, ModelConfig
from captioning.decoders.decoder import HEADS, without_dropout
from captioning.decoders.scheduled_sampling import ScheduledSampling
from captioning.decoders.speaking import replaying, speak
from captioning.errors import ConfigError
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import PAD

B, M, ROWS, COLUMNS, D, T, V, E, H = 3, 2, 2, 3, 5, 7, 11, 13, 16
R = ROWS * COLUMNS
LENGTHS = torch.tensor([[7, 3], [6, 0], [2, 1]])
IS_WORD = torch.arange(T) < LENGTHS.unsqueeze(-1)

MODELS = {
    "show_attend_tell": {},
    "mean_pool": {},
    "marginal": {},
    "top_down": {},
    "adaptive": {},
    "transformer": {},
    "top_down, linear output": {"output": "linear"},
    "adaptive, linear output": {"output": "linear"},
    "transformer, linear output": {"output": "linear"},
    "transformer, relative": {"positions": "relative"},
    "transformer, learned": {"positions": "learned", "grid_positions": "learned"},
    "show_attend_tell, local_m": {"attention": {"locality": "local_m", "window": 1}},
    "top_down, local_p": {"attention": {"locality": "local_p", "window": 1}},
    "adaptive, local_m": {"attention": {"locality": "local_m", "window": 1}},
    "show_attend_tell, words alone": {"feed_context": False},
    "show_attend_tell, sparsemax": {"attention": {"normalizer": "sparsemax"}},
    "marginal, local_m": {"gate": "none", "attention": {"locality": "local_m", "window": 1}},
    "adaptive, entmax15": {"attention": {"normalizer": "entmax15", "score": "scaled_dot"}},
}
every_model = pytest.mark.parametrize("name", MODELS)


def make(name, **settings):
    settings = {**MODELS[name], **settings}
    attention = AttentionConfig(**settings.pop("attention", {}))
    if "transformer" not in name:
        attention = dataclasses.replace(attention, width=19)
    decoder = DecoderConfig(name=name.split(",")[0], state_width=H, word_width=E, heads=4, **settings)
    torch.manual_seed(5)
    model = ModelConfig(attention=attention, decoder=decoder)
    return build_decoder(model, region_width=D, vocabulary_size=V).double().eval()


def example():
    torch.manual_seed(7)
    regions = torch.randn(B, R, D, dtype=torch.float64)
    return ImageFeatures(regions, ROWS, COLUMNS), torch.randint(3, V, (B, M, T))


def test_every_decoder_is_tested_here():
    assert {name.split(",")[0] for name in MODELS} == set(DECODERS)


@every_model
def test_step_by_step_equals_the_whole_sequence(name):
    decoder, (features, inputs) = make(name), example()
    reading = decoder(features, inputs, torch.ones(B, M, T, dtype=torch.bool))
    logits, weights = reading.words.unpack(reading.logits), reading.words.unpack(reading.weights)
    step = DecoderStep(decoder, features)
    with torch.no_grad():
        state = step.reorder(step.start(), torch.zeros(B, M, dtype=torch.int64))
        for t in range(T):
            said = step.advance(state, inputs[:, :, t])
            state = said.state
            torch.testing.assert_close(said.log_probabilities, logits[:, :, t].float().log_softmax(-1))
            torch.testing.assert_close(said.weights, weights[:, :, t])
            assert said.details.keys() == reading.details.keys()
            for detail, values in reading.details.items():
                torch.testing.assert_close(said.details[detail], reading.words.unpack(values)[:, :, t])


@every_model
def test_an_image_alone_equals_its_row_in_a_batch(name):
    decoder, (features, inputs) = make(name), example()
    whole = decoder(features, inputs, IS_WORD)
    whole_logits, whole_weights = whole.words.unpack(whole.logits), whole.words.unpack(whole.weights)
    for b in range(B):
        one = torch.tensor([b])
        alone = decoder(features.rows_of(one), inputs[one], IS_WORD[one])
        steps = LENGTHS[b].max()
        torch.testing.assert_close(alone.words.unpack(alone.logits)[0], whole_logits[b, :, :steps])
        torch.testing.assert_close(alone.words.unpack(alone.weights)[0], whole_weights[b, :, :steps])


@every_model
def test_a_later_word_changes_nothing_before_it(name):
    decoder, (features, inputs) = make(name), example()
    every = torch.ones(B, M, T, dtype=torch.bool)
    changed = inputs.clone()
    changed[:, :, 4] = (inputs[:, :, 4] + 1) % V
    one, other = (decoder(features, words, every) for words in (inputs, changed))
    before = one.words.time < 4
    torch.testing.assert_close(one.logits[before], other.logits[before])
    assert not torch.allclose(one.logits[one.words.time == 4], other.logits[one.words.time == 4])


@pytest.mark.parametrize("name", ["show_attend_tell", "mean_pool", "marginal", "top_down", "adaptive", "transformer"])
def test_permuted_regions_permute_weights_not_words(name):
    decoder, (features, inputs) = make(name, grid_positions="none"), example()
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    straight = decoder(features, inputs, IS_WORD)
    permuted = decoder(ImageFeatures(features.regions[:, order], ROWS, COLUMNS), inputs, IS_WORD)
    torch.testing.assert_close(permuted.logits, straight.logits)
    torch.testing.assert_close(permuted.weights, straight.weights[:, order])


@pytest.mark.parametrize("grid_positions", ["sinusoidal", "learned"])
def test_with_grid_positions_the_transformer_sees_where_a_cell_is(grid_positions):
    decoder, (features, inputs) = make("transformer", grid_positions=grid_positions), example()
    order = torch.tensor([3, 5, 0, 1, 4, 2])
    straight = decoder(features, inputs, IS_WORD)
    permuted = decoder(ImageFeatures(features.regions[:, order], ROWS, COLUMNS), inputs, IS_WORD)
    assert not torch.allclose(permuted.logits, straight.logits, atol=1e-6)


@every_model
def test_masked_regions_are_inert_even_where_they_hold_nan(name):
    decoder, (features, inputs) = make(name), example()
    mask = torch.tensor([True, True, True, True, False, False]).expand(B, R)
    logits = []
    for filler in (torch.nan, 2.0):
        regions = features.regions.clone()
        regions[:, 4:] = filler
        regions.requires_grad_()
        reading = decoder(ImageFeatures(regions, ROWS, COLUMNS, mask), inputs, IS_WORD)
        assert (reading.weights[:, 4:] == 0).all()
        decoder.zero_grad()
        reading.logits.sum().backward()
        assert (regions.grad[:, 4:] == 0).all()
        assert all(each.grad.isfinite().all() for each in decoder.parameters() if each.grad is not None)
        logits.append(reading.logits)
    torch.testing.assert_close(*logits)


@every_model
def test_reordered_and_selected_states_go_on_as_their_own_prefix(name):
    decoder, (features, inputs) = make(name), example()
    step = DecoderStep(decoder, features)
    with torch.no_grad():
        state = step.reorder(step.start(), torch.zeros(B, M, dtype=torch.int64))
        for t in range(2):
            state = step.advance(state, inputs[:, :, t]).state
        parents, kept = torch.tensor([[1, 0], [1, 1], [0, 0]]), torch.tensor([2, 0])
        state = step.select(step.reorder(state, parents), kept)
        found = step.advance(state, inputs[kept, :, 2]).log_probabilities
        for place, image in enumerate(kept):
            for k in range(M):
                prefix = torch.cat([inputs[image, parents[image, k], :2], inputs[image, k, 2:3]])
                whole = decoder(features.rows_of(image.view(1)), prefix.view(1, 1, 3), torch.ones(1, 1, 3).bool())
                torch.testing.assert_close(found[place, k], whole.logits[2].float().log_softmax(-1))


@every_model
def test_bfloat16_stays_near_float32_and_gives_float32_gradients(name):
    decoder, (features, inputs) = make(name).float(), example()
    features = ImageFeatures(features.regions.float(), ROWS, COLUMNS)
    exact = decoder(features, inputs, IS_WORD)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = decoder(features, inputs, IS_WORD)
    assert rough.logits.dtype == (torch.float32 if "marginal" in name else torch.bfloat16)
    spread = exact.logits.std()
    assert (rough.logits.float() - exact.logits).abs().mean() < 0.05 * spread
    rough.logits.float().sum().backward()
    assert all(each.grad.dtype == torch.float32 for each in decoder.parameters() if each.grad is not None)


@every_model
def test_a_batch_without_words_gives_no_rows_and_every_weight_is_used_by_one_that_has_some(name):
    decoder, (features, inputs) = make(name), example()
    assert decoder(features, inputs, torch.zeros(B, M, T, dtype=torch.bool)).logits.shape == (0, V)
    reading = decoder(features, inputs, IS_WORD)
    (reading.logits.sin().sum() + reading.weights.square().sum()).backward()
    unused = {each for each, parameter in decoder.named_parameters() if parameter.grad is None}
    assert unused <= {"attention.locality.to_centre.weight"}


@every_model
def test_own_words_are_read_or_refused(name):
    decoder, (features, inputs) = make(name), example()
    every = torch.ones(B, M, T, dtype=torch.bool)
    never = ScheduledSampling(0.0, torch.Generator())
    if "transformer" in name:
        with pytest.raises(ConfigError, match="scheduled_sampling: expected 0 with the transformer"):
            decoder(features, inputs, every, never)
    else:
        torch.testing.assert_close(
            decoder(features, inputs, every, never).logits, decoder(features, inputs, every).logits
        )


def test_the_mean_is_the_uniform_map():
    uniform, mean = make("show_attend_tell", attention={"normalizer": "uniform"}), make("mean_pool")
    state = {name: tensor for name, tensor in uniform.state_dict().items() if not name.startswith("attention.")}
    mean.load_state_dict(state)
    features, inputs = example()
    one, other = (decoder(features, inputs, IS_WORD) for decoder in (uniform, mean))
    torch.testing.assert_close(one.logits, other.logits)
    torch.testing.assert_close(one.weights.double(), other.weights.double())


def test_the_sentinels_weight_and_the_map_sum_to_one():
    decoder, (features, inputs) = make("adaptive"), example()
    reading = decoder(features, inputs, IS_WORD)
    torch.testing.assert_close(reading.weights.sum(-1) + reading.details["sentinel"], torch.ones(19).double())
    assert (reading.details["sentinel"] > 0).all()


def test_a_transformers_map_is_the_mean_of_its_heads():
    decoder, (features, inputs) = make("transformer"), example()
    reading = decoder(features, inputs, IS_WORD)
    assert reading.details[HEADS].shape == (19, 4, R)
    torch.testing.assert_close(reading.details[HEADS].mean(1), reading.weights)
    torch.testing.assert_close(reading.details[HEADS].sum(-1), torch.ones(19, 4).double())


def test_contexts_are_dropped_in_training_only():
    decoder, (features, inputs) = make("show_attend_tell", context_dropout=0.99, dropout=0.0), example()
    looked = decoder(features, inputs, IS_WORD).logits
    decoder.train()
    blind = decoder(features, inputs, IS_WORD).logits
    assert not torch.allclose(looked, blind)
    torch.testing.assert_close(decoder.eval()(features, inputs, IS_WORD).logits, looked)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ConfigError, match=r"decoder: expected one of .*top_down.*, got 'topdown'; did you mean"):
        build_decoder(ModelConfig(decoder=DecoderConfig(name="topdown")), region_width=D, vocabulary_size=V)
    with pytest.raises(ConfigError, match="feed_context false: expected output deep, got linear"):
        make("show_attend_tell", feed_context=False, output="linear")
    with pytest.raises(ConfigError, match="layers: expected at least 1, got 0"):
        make("transformer", layers=0)
    with pytest.raises(ConfigError, match=r"model.attention: expected its defaults with the transformer"):
        make("transformer", attention={"score": "dot"})


CHOOSING = [name for name in MODELS if name.split(",")[0] in ("show_attend_tell", "top_down", "adaptive")]


@pytest.mark.parametrize(
    ("name", "selection"), [*((name, "soft") for name in MODELS), *((name, "hard") for name in CHOOSING)]
)
def test_captions_that_it_says_are_read_again_as_they_were_said(name, selection, monkeypatch):
    """Word by word the same log-probabilities, and the same cells where cells are drawn."""
    attention = {**MODELS[name].get("attention", {}), **({"selection": "hard"} if selection == "hard" else {})}
    decoder, (features, _) = make(name, **({"attention": attention} if attention else {})), example()
    decoder.train()
    said, advance = [], decoder.advance

    def noted(*arguments):
        said.append(advance(*arguments))
        return said[-1]

    monkeypatch.setattr(decoder, "advance", noted)
    with torch.no_grad(), without_dropout(decoder):
        spoken = speak(decoder, features, captions=M, longest=T)
        with replaying(decoder, spoken):
            reading = decoder(features, spoken.words[..., :-1], spoken.words[..., 1:] != PAD)
    in_steps = torch.stack([step.log_probabilities for step in said], 2)
    expected = reading.words.pack(in_steps)
    torch.testing.assert_close(reading.logits.float().log_softmax(-1), expected, check_dtype=False)
    assert (spoken.cells is not None) == (selection == "hard")
    if selection == "hard":
        assert torch.equal(reading.details["cell"], reading.words.pack(spoken.cells))
