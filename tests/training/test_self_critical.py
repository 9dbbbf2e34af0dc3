"""Rewards on words, and on words and glimpses together: all captions of two words, listed with all ways to look."""

import itertools

import pytest
import torch
from torch import nn

from captioning.attention import Attention
from captioning.captioner.constraints import FORBIDDEN
from captioning.data.batch import collate
from captioning.decoders.decoder import without_dropout
from captioning.decoders.output import DeepOutput
from captioning.decoders.recurrent import LOG_PROBABILITY
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.decoders.speaking import Spoken, replaying, sayable, speak
from captioning.errors import ConfigError, ShapeError
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, PAD, SPECIAL_WORDS, START, Vocabulary
from captioning.training.objectives import CrossEntropy
from captioning.training.self_critical import REWARD, CiderReward, SelfCritical, surrogate_of
from captioning.training.settings import OptimizerSettings
from tests.training import small_run

R, T, D, V, E, H, A = 3, 2, 5, 7, 11, 13, 17
SAID = [END, 4, 5, 6]
VOCABULARY = Vocabulary([*SPECIAL_WORDS, "red", "blue", "star"])


def make(selection, **dropouts):
    torch.manual_seed(3)
    return ShowAttendTell(
        attention=Attention(query_width=H, key_width=D, width=A, selection=selection),
        embedding=nn.Embedding(V, E),
        output=DeepOutput(vocabulary_size=V, word_width=E, state_width=H, region_width=D, dropout=0.5),
        state_width=H,
        region_width=D,
    ).double()


def features(images=1):
    return ImageFeatures(torch.randn(images, R, D, generator=torch.Generator().manual_seed(4)).double(), 1, R)


def every_caption():
    """All captions of at most two words: END is one, and a caption of two words without it was cut off."""
    yield [END, PAD]
    yield from ([one, two] for one, two in itertools.product(SAID[1:], SAID))


def every_way(selection):
    """All captions with all ways to look."""
    for words in every_caption():
        steps = T - words.count(PAD)
        looks = itertools.product(range(R), repeat=steps) if selection == "hard" else [()]
        for cells in looks:
            padded = torch.tensor([[[*cells, *[0] * (T - steps)]]]) if selection == "hard" else None
            yield Spoken(torch.tensor([[[START, *words]]]), padded, None)


def read(decoder, spoken):
    with replaying(decoder, spoken):
        return decoder(features(len(spoken.words)), spoken.words[..., :-1], spoken.words[..., 1:] != PAD)


def log_chance(reading, spoken):
    """() of the words and the glimpses."""
    targets = reading.words.pack(spoken.words[..., 1:])
    words = sayable(reading.logits, FORBIDDEN)[torch.arange(len(targets)), targets].sum()
    return words + (reading.details[LOG_PROBABILITY].sum() if spoken.cells is not None else 0)


def reward(spoken):
    """Any function of the words, such that all captions differ."""
    return spoken.words.double().mul(torch.tensor([0.0, 0.3, -0.11])).sum().sin()


@pytest.mark.parametrize("selection", ["soft", "hard"])
@pytest.mark.parametrize("compared_with", [0.0, 0.7])
def test_its_expectation_is_the_gradient_of_the_expected_reward(selection, compared_with):
    decoder = make(selection).train()
    exact = found = total = 0
    with without_dropout(decoder):
        for spoken in every_way(selection):
            reading = read(decoder, spoken)
            chance = log_chance(reading, spoken).exp()
            advantage = (reward(spoken) - compared_with).reshape(1, 1, 1)
            total = total + chance.detach()
            exact = exact - chance * reward(spoken)
            found = found + chance.detach() * surrogate_of(reading, spoken, advantage)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-5, atol=1e-5)  # log-probabilities are float32
    parameters = dict(decoder.named_parameters())
    expected, gradients = (
        torch.autograd.grad(value, list(parameters.values()), allow_unused=True, retain_graph=True)
        for value in (exact, found)
    )
    for name, one, other in zip(parameters, expected, gradients, strict=True):
        if one is not None:
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")
    assert expected[list(parameters).index("attention.score.vector")].abs().sum() > 0


@pytest.mark.parametrize("selection", ["soft", "hard", "mixed"])
def test_captions_are_drawn_with_the_probabilities_that_are_differentiated(selection):
    decoder, images = make(selection).train(), 2
    torch.manual_seed(1)
    with without_dropout(decoder):
        spoken = speak(decoder, features(images), captions=997, longest=T, never=FORBIDDEN)
        reading = read(decoder, spoken)
    first = spoken.words[..., 1]
    assert set(first.unique().tolist()) == set(SAID)
    at_first = sayable(reading.logits, FORBIDDEN).exp()[reading.words.time == 0].detach()
    # With soft attention all captions of an image share one distribution, with hard the mean over the glimpses.
    for image in range(images):
        expected = at_first.unflatten(0, (images, -1))[image].mean(0)
        counts = torch.bincount(first[image], minlength=V)
        missed = (counts - 997 * expected)[SAID].square() / (997 * expected[SAID])
        assert missed.sum() < 21.1  # chi-square of 3 degrees of freedom: exceeded once in 10,000
    after_end = spoken.words[..., 1] == END
    assert (spoken.words[..., 2][after_end] == PAD).all()
    assert (spoken.words[..., 2][~after_end] != PAD).all()


def test_mixed_attention_is_read_again_with_the_coins_of_each_image():
    decoder, images = make("mixed").train(), 29
    torch.manual_seed(2)
    with without_dropout(decoder):
        spoken = speak(decoder, features(images), captions=2, longest=T, never=FORBIDDEN)
        chosen = read(decoder, spoken).details[LOG_PROBABILITY]
    by_image = spoken.sampled.flatten(1)
    assert (by_image.all(1) | ~by_image.any(1)).all()
    assert 3 < by_image.any(1).sum() < 26
    words = read(decoder, spoken).words
    assert ((chosen == 0) == ~words.pack(spoken.sampled)).all()


def test_the_likeliest_words_are_the_greedy_caption():
    decoder = make("soft").eval()
    words = speak(decoder, features(5), captions=1, longest=4, likeliest=True).words[:, 0]
    for image in range(5):
        of_image = ImageFeatures(features(5).regions[image : image + 1], 1, R)
        said = [START]
        while len(said) <= 4 and said[-1] != END:
            batch = collate(["one"], of_image, [[[*said, 4]]])
            logits = decoder(of_image, batch.inputs, batch.is_word).logits[-1]
            said.append(sayable(logits, (PAD, START)).argmax().item())
        assert words[image].tolist()[: len(said)] == said


def test_dropout_is_off_inside_and_on_after():
    decoder = make("soft").train()
    with without_dropout(decoder):
        assert decoder.training
        assert not decoder.output.dropout.training
        one, two = (read(decoder, Spoken(torch.tensor([[[START, 4, END]]]), None, None)).logits for _ in range(2))
    assert torch.equal(one, two)
    assert decoder.output.dropout.training


def test_a_caption_is_paid_for_its_end_and_for_the_words_of_the_references():
    references = {"one.png": ["A red star.", "red star"], "two.png": ["blue", "the blue one"]}
    paid = CiderReward(references, VOCABULARY)
    red, blue, star = (VOCABULARY[word] for word in ("red", "blue", "star"))
    words = torch.tensor(
        [[[START, red, star, END], [START, red, star, PAD]], [[START, blue, END, PAD], [START, red, star, END]]]
    )
    (ended, cut), (right, wrong) = paid(["one.png", "two.png"], words).tolist()
    assert ended > cut > 0
    assert right > wrong
    alone = CiderReward({"one.png": references["one.png"], "three.png": references["two.png"]}, VOCABULARY)
    assert alone(["one.png"], words[:1])[0, 0].item() == pytest.approx(ended)  # images do not influence one another


def rewarded_run(**settings):
    """A small run whose pictures are all alike, and the reward of its captions."""
    module, loaders = small_run.make(
        alike=True, optimizer=OptimizerSettings(name="adam", learning_rate=0.02, encoder_learning_rate=0.0)
    )
    references = {**small_run.captions(8, alike=True).references, "other": ["the green square left of a star"]}
    paid = CiderReward(references, module.captioner.vocabulary)
    module.objective = SelfCritical(CrossEntropy(penalty_weight=0.0), paid, longest=9, **settings)
    return module, loaders, paid


@pytest.mark.parametrize("baseline", ["leave_one_out", "greedy"])
def test_training_raises_the_reward_of_what_is_said(baseline):
    module, loaders, paid = rewarded_run(true_weight=0.0, baseline=baseline)

    def paid_now():
        batch = next(iter(loaders.train_dataloader()))
        torch.manual_seed(0)
        said = speak(
            module.captioner.decoder, module.captioner.features(batch), captions=97, longest=9, never=FORBIDDEN
        )
        return paid(batch.image_ids, said.words).mean()

    before = paid_now()
    small_run.fit(module, loaders, max_epochs=20, limit_val_batches=0)
    assert paid_now() > 1.5 * before > 0


def test_the_true_captions_have_their_share_of_the_gradient():
    module, loaders, _ = rewarded_run(true_weight=0.3)
    module.train()
    batch = next(iter(loaders.train_dataloader()))
    with torch.no_grad():
        features_of_batch = module.captioner.features(batch)
    losses = {}
    for weight in (0.0, 0.3):
        module.objective.true_weight = weight
        torch.manual_seed(5)
        losses[weight] = module.objective.training_loss(module.captioner, batch, features_of_batch)
    true = CrossEntropy(penalty_weight=0.0).training_loss(module.captioner, batch, features_of_batch)
    share = (losses[0.3].total / losses[0.3].count - losses[0.0].total / losses[0.0].count) / 0.3
    torch.testing.assert_close(share, true.total / true.count)
    assert losses[0.3].reported[REWARD] == losses[0.0].reported[REWARD] >= 0
    assert losses[0.3].count == 5 * len(batch)


def test_validation_reports_the_true_captions_loss():
    module, loaders, _ = rewarded_run()
    batch = next(iter(loaders.val_dataloader()))
    of_batch = module.captioner.features(batch)
    reading = module.captioner.decoder(of_batch, batch.inputs, batch.is_word)
    assert (
        module.objective(reading, batch, of_batch).total
        == CrossEntropy(penalty_weight=0.0)(reading, batch, of_batch).total
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"baseline": "mean"}, "objective.spoken_baseline: expected leave_one_out or greedy, got 'mean'"),
        ({"samples": 1}, "objective.spoken: expected at least 2 with leave_one_out, got 1"),
        ({"samples": 0, "baseline": "greedy"}, "objective.spoken: expected at least 1 with greedy, got 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        SelfCritical(CrossEntropy(), lambda ids, words: words, **settings)


def test_a_reading_longer_than_what_was_spoken_is_refused():
    decoder = make("hard").train()
    spoken = Spoken(torch.tensor([[[START, 4, END]]]), torch.zeros(1, 1, 1, dtype=torch.int64), None)
    with pytest.raises(ShapeError, match="replay: expected at most 1 steps, got one more"):
        read(decoder, spoken)
