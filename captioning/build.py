"""From names and numbers in a config to objects: the one file that knows which class belongs to which name."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar, cast

from torch import nn

from captioning.attention import Attention
from captioning.attention.attention import named
from captioning.captioner import Captioner, Encoder
from captioning.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, ObjectiveConfig
from captioning.decoders.adaptive import Adaptive
from captioning.decoders.decoder import Decoder, Dropouts
from captioning.decoders.marginal import Marginal
from captioning.decoders.mean_pool import MeanRegion
from captioning.decoders.output import DeepOutput, LinearOutput
from captioning.decoders.recurrent import Attends
from captioning.decoders.show_attend_tell import ShowAttendTell
from captioning.decoders.top_down import TopDown
from captioning.decoders.transformer import TransformerDecoder
from captioning.decoding.search import Search
from captioning.encoders.grid import GridEncoder
from captioning.encoders.make import make_encoder, rebuild_encoder
from captioning.encoders.small import CellEncoder
from captioning.errors import CheckpointError, ConfigError
from captioning.estimators.baselines import BASELINES, Learned
from captioning.text.tokenizers import tokenizer_from
from captioning.text.vocabulary import Vocabulary
from captioning.training.hard_attention import HardAttention
from captioning.training.objectives import CrossEntropy, Objective
from captioning.training.self_critical import CiderReward, SelfCritical

CELLS = "cells"
SAMPLING = ("hard", "mixed")
"""Selections that draw regions, which an objective has to reward."""
Settings = TypeVar("Settings")


def build_captioner(model: ModelConfig, vocabulary: Vocabulary, search: Search | None = None) -> Captioner:
    """A fresh captioner; its random weights come from torch's seed."""
    encoder = build_encoder(model.encoder)
    decoder = build_decoder(model, region_width=encoder.width, vocabulary_size=len(vocabulary))
    return Captioner(encoder=encoder, decoder=decoder, vocabulary=vocabulary, default_search=search)


def build_encoder(config: EncoderConfig) -> Encoder:
    """The encoder with its weights."""
    if config.name == CELLS:
        return CellEncoder()
    return make_encoder(
        config.name,
        weights=config.weights,
        image_size=config.image_size,
        layer=config.layer,
        fit=config.fit,
        tune_from=config.tune_from,
        tune_statistics=config.tune_statistics,
    )


def build_decoder(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> Decoder:
    """The decoder by its name."""
    build = named("decoder", model.decoder.name, DECODERS)
    return build(model, region_width=region_width, vocabulary_size=vocabulary_size)


def build_attention(config: AttentionConfig, *, query_width: int, key_width: int) -> Attention:
    """The attention mechanism."""
    return Attention(
        query_width=query_width,
        key_width=key_width,
        width=config.width,
        score=config.score,
        locality=config.locality,
        normalizer=config.normalizer,
        selection=config.selection,
        temperature=config.temperature,
        activation=config.activation,
        window=config.window,
        dropout=config.dropout,
        frozen_scores=config.frozen_scores,
    )


def build_objective(config: ObjectiveConfig, model: ModelConfig, *, reward: Callable[[], CiderReward]) -> Objective:
    """The objective; `reward` is asked for only where captions that the model says are rewarded."""
    true_captions = _true_captions(config, model)
    if config.name != "self_critical":
        return true_captions
    return SelfCritical(
        true_captions,
        reward(),
        samples=config.spoken,
        baseline=config.spoken_baseline,
        true_weight=config.true_weight,
        longest=config.spoken_length,
    )


def _true_captions(config: ObjectiveConfig, model: ModelConfig) -> CrossEntropy | HardAttention:
    words = CrossEntropy(
        label_smoothing=config.label_smoothing,
        penalty_weight=config.penalty_weight,
        penalty_reduction=config.penalty_reduction,
        loss_reduction=config.loss_reduction,
    )
    if model.attention.selection not in SAMPLING:
        return words
    return HardAttention(
        words,
        reward_weight=config.reward_weight,
        entropy_weight=config.entropy_weight,
        entropy=config.entropy,
        returns=config.returns,
        baseline=Learned(model.decoder.state_width) if config.baseline == "learned" else BASELINES[config.baseline](),
        samples=config.samples,
    )


def describe_captioner(captioner: Captioner, model: ModelConfig) -> dict[str, Any]:
    """Plain types from which `rebuild_captioner` makes the same captioner, but for its weights."""
    return {
        "model": asdict(model),
        "encoder": captioner.encoder.to_dict(),
        "vocabulary": captioner.vocabulary.to_list(),
        "tokenizer": captioner.vocabulary.tokenizer.to_dict(),
        "search": asdict(captioner.default_search),
        "fingerprints": {
            "vocabulary": captioner.vocabulary.fingerprint(),
            "encoder": _frozen_fingerprint(captioner.encoder),
        },
    }


def _frozen_fingerprint(encoder: Encoder) -> str | None:
    """Of what no training changes; None where all of the encoder learns."""
    frozen = isinstance(encoder, GridEncoder) and encoder.stored_layer is not None
    return cast(GridEncoder, encoder).stored_fingerprint() if frozen else None


def rebuild_captioner(description: Mapping[str, Any]) -> Captioner:
    """The captioner that `describe_captioner` told of, waiting for its weights."""
    model = _model_from(description["model"])
    vocabulary = Vocabulary.from_list(description["vocabulary"], tokenizer_from(description.get("tokenizer")))
    cells = model.encoder.name == CELLS
    encoder: Encoder = CellEncoder(**description["encoder"]) if cells else rebuild_encoder(description["encoder"])
    decoder = build_decoder(model, region_width=encoder.width, vocabulary_size=len(vocabulary))
    search = _settings(Search, description["search"])
    return Captioner(encoder=encoder, decoder=decoder, vocabulary=vocabulary, default_search=search)


def _model_from(values: Mapping[str, Any]) -> ModelConfig:
    return ModelConfig(
        encoder=_settings(EncoderConfig, values["encoder"]),
        attention=_settings(AttentionConfig, values["attention"]),
        decoder=_settings(DecoderConfig, values["decoder"]),
    )


def _settings(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """A part of a stored config. Raises CheckpointError for settings that only another version knows."""
    unknown = values.keys() - {each.name for each in fields(kind)}  # type: ignore[arg-type]
    if unknown:
        raise CheckpointError(
            f"{kind.__name__}: this version does not know {', '.join(sorted(unknown))}; the captioner was written by "
            "another version, which its captioner.json names: install that one, or train again"
        )
    return kind(**values)


def _show_attend_tell(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> ShowAttendTell:
    attention = build_attention(model.attention, query_width=model.decoder.state_width, key_width=region_width)
    return _show_attend_tell_with(attention, model, region_width=region_width, vocabulary_size=vocabulary_size)


def _mean_pool(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> ShowAttendTell:
    return _show_attend_tell_with(MeanRegion(), model, region_width=region_width, vocabulary_size=vocabulary_size)


def _show_attend_tell_with(
    attention: Attends, model: ModelConfig, *, region_width: int, vocabulary_size: int
) -> ShowAttendTell:
    config = model.decoder
    if not config.feed_context and config.output != "deep":
        raise ConfigError(
            f"decoder feed_context false: expected output deep, got {config.output}: nothing else would see the context"
        )
    embedding = nn.Embedding(vocabulary_size, config.word_width)
    return ShowAttendTell(
        attention=attention,
        embedding=embedding,
        output=_output(config, embedding, region_width=region_width),
        state_width=config.state_width,
        region_width=region_width,
        gate=config.gate,
        initial_state=config.initial_state,
        feed_context=config.feed_context,
        dropouts=_dropouts(config),
    )


def _marginal(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> Marginal:
    config = model.decoder
    if config.output != "deep":
        raise ConfigError(f"decoder marginal: expected output deep, got {config.output}: nothing else sees a region")
    embedding = nn.Embedding(vocabulary_size, config.word_width)
    return Marginal(
        attention=build_attention(model.attention, query_width=config.state_width, key_width=region_width),
        embedding=embedding,
        output=cast(DeepOutput, _output(config, embedding, region_width=region_width)),
        state_width=config.state_width,
        region_width=region_width,
        gate=config.gate,
        initial_state=config.initial_state,
        dropouts=_dropouts(config),
    )


def _top_down(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> TopDown:
    config = model.decoder
    embedding = nn.Embedding(vocabulary_size, config.word_width)
    return TopDown(
        attention=build_attention(model.attention, query_width=config.state_width, key_width=region_width),
        embedding=embedding,
        output=_output(config, embedding, region_width=region_width),
        state_width=config.state_width,
        region_width=region_width,
        dropouts=_dropouts(config),
    )


def _adaptive(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> Adaptive:
    config = model.decoder
    embedding = nn.Embedding(vocabulary_size, config.word_width)
    return Adaptive(
        attention=build_attention(model.attention, query_width=config.state_width, key_width=config.state_width),
        embedding=embedding,
        output=_output(config, embedding, region_width=config.state_width),
        state_width=config.state_width,
        region_width=region_width,
        initial_state=config.initial_state,
        dropouts=_dropouts(config),
    )


def _transformer(model: ModelConfig, *, region_width: int, vocabulary_size: int) -> TransformerDecoder:
    config = model.decoder
    if model.attention != AttentionConfig():
        raise ConfigError(
            "model.attention: expected its defaults with the transformer, whose heads are scaled_dot; "
            "set model.decoder.heads, layers and positions instead"
        )
    embedding = nn.Embedding(vocabulary_size, config.word_width)
    return TransformerDecoder(
        embedding=embedding,
        output=_output(config, embedding, region_width=config.state_width),
        state_width=config.state_width,
        region_width=region_width,
        layers=config.layers,
        heads=config.heads,
        positions=config.positions,
        grid_positions=config.grid_positions,
        dropout=config.dropout,
        dropouts=_dropouts(config),
    )


def _dropouts(config: DecoderConfig) -> Dropouts:
    return Dropouts(
        word=config.word_dropout,
        embedding=config.embedding_dropout,
        region=config.region_dropout,
        context=config.context_dropout,
    )


def _output(config: DecoderConfig, embedding: nn.Embedding, *, region_width: int) -> DeepOutput | LinearOutput:
    tied = embedding if config.tie_words else None
    if config.output == "deep":
        return DeepOutput(
            vocabulary_size=embedding.num_embeddings,
            word_width=config.word_width,
            state_width=config.state_width,
            region_width=region_width,
            tanh=config.output_tanh,
            dropout=config.dropout,
            embedding=tied,
        )
    if config.tie_words and config.state_width != config.word_width:
        raise ConfigError(
            "tie_words with output linear: expected state_width = word_width, "
            f"got {config.state_width} and {config.word_width}"
        )
    return LinearOutput(
        vocabulary_size=embedding.num_embeddings,
        state_width=config.state_width,
        dropout=config.dropout,
        embedding=tied,
    )


DECODERS: dict[str, Callable[..., Decoder]] = {
    "show_attend_tell": _show_attend_tell,
    "mean_pool": _mean_pool,
    "marginal": _marginal,
    "top_down": _top_down,
    "adaptive": _adaptive,
    "transformer": _transformer,
}
