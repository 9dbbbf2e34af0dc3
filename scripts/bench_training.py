"""How much faster does the decoder train than a textbook one, and how near is it to what the machine can do?

One step is loss, backward pass and Adam on frozen features. The twin takes one caption a row and repeats an
image's features for each, in float32. Run as `python -m scripts.bench_training`.
"""

from collections.abc import Callable

import torch
from torch.optim import Adam

from captioning.training.objectives import CrossEntropy
from scripts.benchmarking.contest import Contestant, arguments, compete, header
from scripts.benchmarking.floor import Work, product
from scripts.benchmarking.setting import Setting


def product_step(setting: Setting, dtype: torch.dtype) -> Callable[[], object]:
    """A training step of ours; with bfloat16 under autocast, as the trainer runs it."""
    decoder, batch, objective = setting.product().train(), setting.batch(), CrossEntropy()
    optimizer = Adam(decoder.parameters(), lr=1e-4)
    features = batch.features
    assert features is not None

    def step() -> None:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            reading = decoder(features, batch.inputs, batch.is_word)
            loss = objective(reading, batch, features)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()

    return step


def twin_step(setting: Setting, dtype: torch.dtype) -> Callable[[], object]:
    """A training step of the twin."""
    decoder, batch = setting.twin().train(), setting.batch()
    optimizer = Adam(decoder.parameters(), lr=1e-4)
    assert batch.features is not None
    regions = batch.features.regions
    captions, lengths = batch.words.flatten(0, 1), batch.is_word.sum(-1).flatten()

    def step() -> None:
        repeated = regions.repeat_interleave(setting.captions, 0)
        loss = decoder.loss(repeated, captions, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def work(setting: Setting) -> Work:
    """A training step of the paper's decoder on frozen features, everything done once that can be done once.

    A product with a weight counts once forward and twice backward (once where its input is frozen). Of the
    memory traffic only what no order of work avoids: each step reads the running images' regions and keys,
    forward and backward; the keys' gradient is read and written; logits and their gradient are written and
    read; and Adam reads and writes its four numbers a parameter.
    """
    batch = setting.batch()
    words = int(batch.is_word.sum())
    image_steps = int(batch.is_word.any(1).sum())
    D, A, V, R = setting.region_width, setting.width, setting.vocabulary_size, setting.regions
    once = (product(setting.images * R, D, A) + product(setting.images, D, 2 * A)) * 2
    recurrence = product(words, 2 * A, 4 * A) + product(words, D, 4 * A) + product(words, A, A + 1)
    output = product(words, A, A) + product(words, D, A) + product(words, A, V)
    mixing = product(words, R, D) * 2 + product(words, R, A) * 2
    regions_read = Work(elements=2.0 * image_steps * R * D)
    keys_read = Work(elements=4.0 * image_steps * R * A)
    nonlinear = Work(tanhs=float(words * (R * A + 6 * A)))
    logits = Work(full_elements=4.0 * words * V)
    parameters = sum(each.numel() for each in setting.product().parameters())
    adam = Work(full_elements=8.0 * parameters)
    return once + (recurrence + output) * 3 + mixing + regions_read + keys_read + nonlinear + logits + adam


CONTESTANTS = (
    Contestant("textbook float32", torch.float32, twin_step, is_product=False),
    Contestant("ours float32", torch.float32, product_step),
    Contestant("ours bfloat16", torch.bfloat16, product_step),
)


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--captions", type=int, nargs="+", default=[1, 5], help="captions an image, each a setting")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"Training, {options.images} images, {options.threads} threads, torch {torch.__version__}\n")
    print(f"{header('captions')}")
    for captions in options.captions:
        setting = Setting(f"{captions} an image", options.images, captions)
        print(*compete(CONTESTANTS, setting, options, work), sep="\n", flush=True)


if __name__ == "__main__":
    main()
