"""It learns: a handful of pictures by heart in seconds; and without looking, places can't be learned."""

import dataclasses
import warnings

import torch

from captioning.cli.demo import demo_config
from captioning.run.data import RunData
from captioning.run.train import train


def run(tmp_path, *, normalizer, images, epochs):
    config = demo_config(output=str(tmp_path), train_images=images, max_epochs=epochs, seed=1)
    attention = dataclasses.replace(config.model.attention, normalizer=normalizer)
    decoder = dataclasses.replace(config.model.decoder, dropout=0.0, word_dropout=0.0, context_dropout=0.0)
    model = dataclasses.replace(config.model, attention=attention, decoder=decoder)
    objective = dataclasses.replace(config.objective, label_smoothing=0.0)
    data = dataclasses.replace(config.data, batch_size=16, drawn_test=300)
    optimizer = dataclasses.replace(
        config.optimizer, learning_rate=5e-3, encoder_learning_rate=5e-3, warmup_steps=10, schedule="constant"
    )
    trainer = dataclasses.replace(config.trainer, progress_bar=False, sample_images=0, validate_every=epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(
            dataclasses.replace(
                config, model=model, data=data, objective=objective, optimizer=optimizer, trainer=trainer
            )
        )


def said(captioner, data: RunData, split):
    source = data.drawn.pictures(captioner.encoder.preprocessing)
    records = data.captions.split(split).records
    features = captioner.encoder(source.read(records, None))
    hypotheses = captioner.search(features, captioner.default_search)
    return {
        record.image_id: " ".join(captioner.vocabulary.decode(best.words))
        for record, (best, *_) in zip(records, hypotheses, strict=True)
    }


def exact(captions, data, split):
    records = data.captions.split(split).records
    return sum(captions[record.image_id] == record.captions[0] for record in records) / len(records)


def test_a_handful_of_pictures_is_learned_by_heart(tmp_path):
    result = run(tmp_path, normalizer="softmax", images=16, epochs=250)
    assert exact(said(result.captioner, result.data, "train"), result.data, "train") >= 0.9


def test_with_uniform_maps_places_are_unknown_and_half_of_the_captions_out_of_reach(tmp_path):
    """The control: the same model without attention.

    Its captions do not change when the cells of a picture are shuffled, so it can't know left from above; since the
    relation is drawn evenly, whatever the objects, more than about a quarter can't be right.
    """
    result = run(tmp_path, normalizer="uniform", images=600, epochs=6)
    before = said(result.captioner, result.data, "test")
    assert exact(before, result.data, "test") < 0.5
    cells = result.data.drawn.pixels.reshape(-1, 6, 16, 6, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 36, 16, 16, 3)
    order = torch.randperm(36, generator=torch.Generator().manual_seed(3)).numpy()
    moved = cells[:, order].reshape(-1, 6, 6, 16, 16, 3).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 96, 96, 3)
    drawn = dataclasses.replace(result.data.drawn, pixels=moved)
    assert said(result.captioner, dataclasses.replace(result.data, drawn=drawn), "test") == before


def test_the_demo_summary_says_what_it_measured(tmp_path, capsys):
    from captioning.cli.demo import summarize

    result = run(tmp_path, normalizer="softmax", images=64, epochs=1)
    summarize(result)
    told = capsys.readouterr().out
    captions = said(result.captioner, result.data, "test")
    assert f"exact captions {exact(captions, result.data, 'test'):.3f} of 300 test pictures" in told
    assert (result.folder / "index.html").is_file()
    assert len(list(result.folder.glob("test_*.png"))) == 12
