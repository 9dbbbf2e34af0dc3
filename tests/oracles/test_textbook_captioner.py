"""The twin must be right before anything is measured against it."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.oracles.textbook_captioner import TextbookCaptioner

PAD, START, END = 0, 1, 2
REGIONS, WIDTH, WORDS = 7, 5, 13


@pytest.fixture
def captioner() -> TextbookCaptioner:
    torch.manual_seed(1)
    captioner = TextbookCaptioner(
        vocabulary_size=WORDS, region_width=WIDTH, word_width=3, state_width=11, attention_width=17
    )
    for parameter in captioner.parameters():  # Sharp enough that hypotheses overtake one another.
        parameter.data.mul_(4 if parameter.dim() > 1 else 0)
    return captioner.eval()


@pytest.fixture
def regions() -> Tensor:
    return torch.randn(17, REGIONS, WIDTH, generator=torch.Generator().manual_seed(2))


CAPTIONS = torch.tensor(
    [
        [START, 5, END, PAD, PAD, PAD],
        [START, 3, 4, 5, 6, END],
        [START, 7, 8, END, PAD, PAD],
        [START, 9, 9, 9, END, PAD],
        [START, 12, 11, END, PAD, PAD],
    ]
)
LENGTHS = torch.tensor([2, 5, 3, 4, 3])


def test_the_reading_is_that_of_each_caption_alone(captioner, regions):
    together = captioner(regions[:5], CAPTIONS, LENGTHS)
    for row, source in enumerate(together.order.tolist()):
        length = LENGTHS[source]
        assert together.targets[row].tolist() == CAPTIONS[source, 1:].tolist()
        alone = captioner(regions[source : source + 1], CAPTIONS[source : source + 1], LENGTHS[source : source + 1])
        torch.testing.assert_close(together.logits[row, :length], alone.logits[0])
        torch.testing.assert_close(together.weights[row, :length], alone.weights[0])
        assert not together.logits[row, length:].any()
        torch.testing.assert_close(alone.weights.sum(2), torch.ones(1, length))


def test_pads_change_neither_loss_nor_gradient(captioner, regions):
    padded = torch.cat([CAPTIONS, torch.full((5, 3), PAD)], 1)
    gradients = []
    for captions in (CAPTIONS, padded):
        captioner.zero_grad()
        captioner.loss(regions[:5], captions, LENGTHS).backward()
        gradients.append([parameter.grad.clone() for parameter in captioner.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_the_loss_is_the_mean_over_words_and_the_penalty_over_regions(captioner, regions):
    reading = captioner(regions[:5], CAPTIONS, LENGTHS)
    words = [
        F.cross_entropy(reading.logits[row, time], reading.targets[row, time])
        for row, length in enumerate(reading.lengths)
        for time in range(length)
    ]
    assert len(words) == LENGTHS.sum()
    missed = [(1 - image.sum()) ** 2 for row in reading.weights for image in row.T]
    expected = torch.stack(words).mean() + 0.3 * torch.stack(missed).mean()
    torch.testing.assert_close(captioner.loss(regions[:5], CAPTIONS, LENGTHS, penalty=0.3), expected)


@pytest.mark.parametrize("beam_size", [1, 3, 5])
@pytest.mark.parametrize(("end_bias", "ends"), [(-9.0, False), (2.0, True)])
def test_the_beam_reports_what_teacher_forcing_gives(captioner, regions, beam_size, end_bias, ends):
    captioner.vocabulary.bias.data[END] += end_bias
    finished = []
    for image in regions:
        caption = captioner.beam_search(image, start=START, end=END, beam_size=beam_size, maximum_length=9)
        targets = caption.words + [END] * caption.finished
        reading = captioner(image[None], torch.tensor([[START, *targets]]), torch.tensor([len(targets)]))
        log_probabilities = reading.logits[0].log_softmax(1)[torch.arange(len(targets)), targets]
        assert caption.score == pytest.approx(log_probabilities.sum().item(), abs=1e-4)
        torch.testing.assert_close(caption.weights, reading.weights[0], atol=1e-5, rtol=1e-4)
        finished.append(caption.finished)
    assert any(finished) == ends


def test_a_beam_of_one_takes_the_likeliest_word(captioner, regions):
    captioner.vocabulary.bias.data[END] += 2
    for image in regions:
        words = [START]
        while len(words) < 10 and words[-1] != END:
            logits = captioner(image[None], torch.tensor([[*words, PAD]]), torch.tensor([len(words)])).logits
            words.append(int(logits[0, -1].argmax()))
        caption = captioner.beam_search(image, start=START, end=END, beam_size=1, maximum_length=9)
        assert caption.words == [word for word in words[1:] if word != END]


def test_a_caption_that_never_ends_is_cut_off(captioner, regions):
    captioner.vocabulary.bias.data[END] = -100
    caption = captioner.beam_search(regions[0], start=START, end=END, beam_size=3, maximum_length=7)
    assert len(caption.words) == len(caption.weights) == 7
    assert not caption.finished
