"""One large step is many small ones; validation is free-running and scores each image once; seeds set everything."""

import warnings

import pytest
import torch
from pytorch_lightning.callbacks import Callback

from captioning.errors import ConfigError
from captioning.metrics import score
from captioning.training.callbacks import MovingAverage
from captioning.training.objectives import CrossEntropy
from captioning.training.settings import OptimizerSettings
from tests.training import small_run


def weights_after(**settings):
    module, loaders = small_run.make(**settings.pop("make", {}))
    small_run.fit(module, loaders, limit_val_batches=0, **settings)
    return module.captioner.state_dict()


def assert_same(one, other, **tolerance):
    for name, tensor in one.items():
        torch.testing.assert_close(tensor, other[name], msg=lambda text, name=name: f"{name}: {text}", **tolerance)


@pytest.mark.parametrize("reduction", ["caption_mean", "token_mean"])
def test_accumulated_batches_are_one_large_step(reduction):
    objective = CrossEntropy(penalty_weight=0.0, loss_reduction=reduction)
    large = weights_after(make={"batch_size": 8, "objective": objective})
    parts = weights_after(make={"batch_size": 2, "objective": objective}, accumulate_grad_batches=4)
    assert_same(large, parts, atol=1e-6, rtol=1e-4)


def test_an_incomplete_last_step_is_divided_by_its_own_captions():
    large = weights_after(make={"batch_size": 8}, max_epochs=1)
    parts = weights_after(make={"batch_size": 4}, accumulate_grad_batches=7, max_epochs=1)
    assert_same(large, parts, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("images", [1, 5])
def test_sets_of_any_size_train_and_validate(images):
    module, loaders = small_run.make(images, batch_size=4, monitor="BLEU-4")
    small_run.fit(module, loaders)
    assert len(module.predictions) == images


def test_the_same_seed_gives_the_same_weights():
    assert_same(weights_after(max_epochs=2), weights_after(max_epochs=2), atol=0, rtol=0)


class Watch(Callback):
    """The logged validation metrics, by epoch."""

    def __init__(self):
        self.seen = []

    def on_validation_end(self, trainer, pl_module):
        self.seen.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def test_validation_scores_are_those_of_the_scoring_function():
    module, loaders = small_run.make(7)
    watch = Watch()
    small_run.fit(module, loaders, num_sanity_val_steps=2, max_epochs=2, callbacks=[watch])
    expected = score(module.predictions, small_run.captions(7).references, metrics=("BLEU-4", "CIDEr-D"))
    assert len(module.predictions) == 7
    assert watch.seen[-1]["validation/CIDEr-D"] == pytest.approx(expected.corpus["CIDEr-D"], rel=1e-5)
    assert watch.seen[-1]["validation/BLEU-4"] == pytest.approx(expected.corpus["BLEU-4"], rel=1e-5)


def test_the_trial_pass_leaves_no_trace():
    module, loaders = small_run.make(7)
    watch = Watch()
    small_run.fit(module, loaders, num_sanity_val_steps=2, max_steps=1, limit_val_batches=1.0, callbacks=[watch])
    assert "validation/CIDEr-D" not in watch.seen[0]


def test_validation_is_not_teacher_forced():
    module, loaders = small_run.make(5)
    with torch.no_grad():
        module.captioner.decoder.output.vocabulary.bias[2] = 50.0  # it ends at once, whatever the true words are
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small_run.trainer().validate(module, loaders, verbose=False)
    assert set(module.predictions.values()) == {""}


def test_a_metric_that_cannot_be_watched_is_refused_at_the_start():
    with pytest.raises(ConfigError, match="CIDEr-D is undefined for a single validation image"):
        small_run.make(1)
    with pytest.raises(ConfigError, match="expected one of BLEU-1, BLEU-4, ROUGE-L, CIDEr-D, got 'loss'"):
        small_run.make(monitor="loss")


def test_moving_average_is_what_it_says():
    decay = 0.9
    latest = []

    class Record(Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            latest.append(pl_module.captioner.decoder.embedding.weight.detach().clone())

    module, loaders = small_run.make(8, batch_size=2)
    small_run.fit(module, loaders, limit_val_batches=0, max_epochs=3, callbacks=[Record(), MovingAverage(decay)])
    average = latest[0]
    for updates, new in enumerate(latest[1:], start=1):
        kept = min(decay, (1 + updates) / (10 + updates))
        average = kept * average + (1 - kept) * new
    torch.testing.assert_close(module.captioner.decoder.embedding.weight.detach(), average)


def test_warmup_cosine_and_plateau_rates():
    rates = []

    class Record(Callback):
        def on_train_batch_start(self, trainer, pl_module, *_):
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    settings = {"name": "sgd", "learning_rate": 1.0, "encoder_learning_rate": 1.0, "warmup_steps": 3}
    cosine = OptimizerSettings(**settings, schedule="cosine", final_factor=0.1)
    module, loaders = small_run.make(8, batch_size=2, optimizer=cosine)
    small_run.fit(module, loaders, limit_val_batches=0, max_epochs=2, callbacks=[Record()])
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[3:] == sorted(rates[3:], reverse=True)
    assert rates[-1] == pytest.approx(0.1 + 0.9 * 0.5 * (1 + torch.tensor(4 / 5 * torch.pi).cos().item()))
    rates.clear()
    plateau = OptimizerSettings(**settings | {"warmup_steps": 1}, schedule="plateau", plateau_patience=0)
    module, loaders = small_run.make(4, batch_size=4, optimizer=plateau)
    module.scorer.score = lambda predictions: score(
        dict.fromkeys(predictions, "nothing"), small_run.captions(4).references, metrics=("CIDEr-D", "BLEU-4")
    )
    small_run.fit(module, loaders, max_epochs=4, callbacks=[Record()])
    assert rates == pytest.approx([0.5, 1.0, 0.5, 0.25])
