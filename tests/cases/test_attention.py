"""Cases H24 to H29: attention goes to places that exist, and hard attention learns from the right quantity."""

import math
from contextlib import contextmanager

import pytest
import torch

from captioning.attention import NORMALIZERS, Attention
from captioning.attention.normalizers import softmax
from captioning.attention.selection import Hard
from captioning.errors import ShapeError
from captioning.estimators.baselines import LeaveOneOut, MovingAverage, PerStep
from captioning.metrics import score
from captioning.text.vocabulary import END, PAD, SPECIAL_WORDS, START, Vocabulary
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy
from captioning.training.self_critical import CiderReward, SelfCritical, bad_endings
from tests.training.small_run import make


@pytest.mark.parametrize("name", [name for name in NORMALIZERS if name != "uniform"])  # it has no gradient
def test_H24_a_fully_masked_row_gets_nothing_and_disturbs_no_other(name):
    normalizer = NORMALIZERS[name]()
    mask = torch.tensor([[True, True], [False, False]])
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    weights = normalizer(scores, mask)
    assert weights[1].tolist() == [0, 0]
    assert weights[0].sum().item() == pytest.approx(1)
    if name == "softmax":
        torch.testing.assert_close(weights[0], torch.tensor([0.2689, 0.7311]), atol=5e-5, rtol=0)
    (weights * torch.tensor([1.0, 3.0])).sum().backward()
    alone = torch.tensor([[1.0, 2.0]], requires_grad=True)
    (normalizer(alone, mask[:1]) * torch.tensor([1.0, 3.0])).sum().backward()
    assert torch.equal(scores.grad[:1], alone.grad)
    assert scores.grad[1].tolist() == [0, 0]


def test_H24_an_image_without_regions_is_refused_or_gives_a_zero_context():
    torch.manual_seed(0)
    attention = Attention(query_width=3, key_width=5, width=7)
    keys, queries = torch.randn(2, 4, 5), torch.randn(2, 1, 3)
    mask = torch.tensor([[True] * 4, [False] * 4])
    with pytest.raises(ShapeError, match=r"mask: row \(1,\) allows no key at all"):
        attention.remember(keys, mask=mask)
    attended = attention(queries, attention.remember(keys, mask=mask, check=False))
    assert attended.context[1].abs().max().item() == 0
    assert not attended.weights.isnan().any()
    attended.context.square().sum().backward()
    shared = [parameter.grad.clone() for parameter in attention.parameters()]
    attention.zero_grad()
    attention(queries[:1], attention.remember(keys[:1], mask=mask[:1])).context.square().sum().backward()
    for both, parameter in zip(shared, attention.parameters(), strict=True):
        assert both.isfinite().all()
        torch.testing.assert_close(both, parameter.grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_H25_masked_cells_weigh_exactly_nothing_in_half_precision(dtype):
    scores = torch.tensor([1, 2, -20000, 5], dtype=dtype)
    mask = torch.tensor([True, True, False, False])
    weights = softmax(scores, mask)
    assert weights[2:].tolist() == [0, 0]
    torch.testing.assert_close(weights[:2].float(), torch.tensor([0.2689, 0.7311]), atol=2e-3, rtol=0)


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("name", ["additive", "concat", "dot", "general", "scaled_dot"])
def test_H26_weights_sum_to_one_over_cells_and_no_image_sees_another(images, name):
    torch.manual_seed(1)
    attention = Attention(query_width=5, key_width=5, width=7, score=name)
    keys, queries = torch.randn(3, 4, 5), torch.randn(3, 2, 5)
    weights = attention(queries[:images], attention.remember(keys[:images])).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(images, 2), atol=1e-6, rtol=0)
    keys[1:], queries[1:] = 100, -100
    changed = attention(queries[:images], attention.remember(keys[:images])).weights
    torch.testing.assert_close(changed[0], weights[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("available", "expected"), [((1, 1, 0), math.log(2)), ((1, 0, 0), 0.0)])
def test_H27_masked_options_add_nothing_to_entropy_or_gradient(available, expected):
    logits = torch.zeros(1, 1, 3, requires_grad=True)
    mask = torch.tensor([[available]], dtype=torch.bool)
    normalizer = NORMALIZERS["softmax"]()
    weights = normalizer(logits, mask)
    attended = Hard()(weights, _values(), log_weights=normalizer.log_weights(logits, mask))
    assert attended.entropy.item() == pytest.approx(expected, abs=1e-6)
    attended.entropy.sum().backward()
    torch.testing.assert_close(logits.grad, torch.zeros(1, 1, 3), atol=1e-7, rtol=0)


def _values():
    from captioning.tensors.recurrence import SharedTensor

    return SharedTensor(torch.eye(3)[None])


REFERENCES = {
    1: ["a cat on a mat", "a cat on a chair"],
    2: ["two dogs play in the snow"],
    3: ["a red bus on a street"],
    4: ["a man with a hat"],
    5: ["a bowl of fruit on a table"],
}
ENDINGS = {"a cat on a": (7.599, 5.696), "a cat on a mat": (7.981, 7.358), "a cat on a sofa": (5.962, 4.716)}


@pytest.mark.parametrize("caption", ENDINGS)
def test_H28_an_end_word_keeps_broken_captions_from_winning(caption):
    """The scoring command leaves the marker out; the training reward has it as the last word on both sides."""
    scored, rewarded = ENDINGS[caption]
    said = {image: own[0] for image, own in REFERENCES.items()} | {1: caption}
    assert score(said, REFERENCES, ["CIDEr-D"]).per_image["CIDEr-D"][1] == pytest.approx(scored, abs=5e-4)
    texts = [text.split() for own in REFERENCES.values() for text in [*own, caption]]
    vocabulary = Vocabulary.build(texts, minimum_count=1)
    words = torch.tensor([[vocabulary.encode(caption.split())]])
    assert CiderReward(REFERENCES, vocabulary)([1], words).item() == pytest.approx(rewarded, abs=5e-4)
    assert bad_endings(words, vocabulary) == (caption.split()[-1] == "a")


def test_H28_captions_that_are_cut_off_end_badly_too():
    vocabulary = Vocabulary([*SPECIAL_WORDS, "a", "cat"])
    a, cat = vocabulary["a"], vocabulary["cat"]
    words = torch.tensor([[[START, a, cat, END], [START, a, END, PAD], [START, a, cat, cat], [START, END, PAD, PAD]]])
    assert bad_endings(words, vocabulary) == 2 / 4


def test_H28_the_reward_of_hard_attention_counts_the_end():
    """REINFORCE rewards each word's log-probability: END is one of the words, and its step has a gradient."""
    module, loaders = make(images=5)
    batch = next(iter(loaders.train_dataloader()))
    ends = (batch.targets == 2) & batch.is_word
    assert ends.sum().item() == batch.captions
    features = module.captioner.features(batch)
    reading = module.captioner.decoder(features, batch.inputs, batch.is_word)
    reading.logits.retain_grad()
    CrossEntropy()(reading, batch, features).total.backward()
    of_ends = reading.logits.grad[reading.words.pack(ends)]
    assert (of_ends.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("baseline", [MovingAverage, PerStep, LeaveOneOut])
def test_H29_a_baseline_keeps_no_graph_and_changes_no_mode(baseline):
    objective = HardAttention(CrossEntropy(), baseline=baseline(), samples=2).train()
    returns, exists = torch.randn(3, 2, 5), torch.ones(3, 2, 5, dtype=torch.bool)
    returns.requires_grad_()
    first, second = (objective.baseline(returns.detach(), exists) for _ in range(2))
    assert not first.requires_grad
    assert torch.equal(first, second)
    objective.baseline.update(returns, exists)
    assert objective.training
    assert not any(buffer.requires_grad for buffer in objective.baseline.buffers())


@contextmanager
def saved_sizes():
    """The bytes of every tensor that is kept for a backward pass inside."""
    sizes = []

    def noted(saved):
        sizes.append(saved.nbytes)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda saved: saved):
        yield sizes


def test_H29_a_greedy_baseline_pass_keeps_no_graph_and_changes_no_mode():
    module, loaders = make(images=5)
    batch = next(iter(loaders.train_dataloader()))
    captioner = module.captioner.train()
    captioner.decoder.output.dropout.p = 0.5
    reward = CiderReward({image: ["a red circle", "the blue star"] for image in batch.image_ids}, captioner.vocabulary)
    kept = {}
    for baseline in ("leave_one_out", "greedy"):  # the first needs no pass of its own
        objective = SelfCritical(CrossEntropy(), reward, samples=3, baseline=baseline, longest=7)
        torch.manual_seed(0)
        with saved_sizes() as sizes:
            features = captioner.features(batch)
            objective.training_loss(captioner, batch, features)
        kept[baseline] = sum(sizes)
        first, second = (objective._baseline(captioner, batch, features, torch.zeros(len(batch), 3)) for _ in range(2))
        assert not first.requires_grad
        assert torch.equal(first, second)
        assert all(part.training for part in captioner.modules())
    assert kept["greedy"] < 1.3 * kept["leave_one_out"]
