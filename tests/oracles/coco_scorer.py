"""The COCO scorer as judge: of tokens by its Java program, of metrics by its Python parts, without Java."""

import contextlib
import io
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

NAMES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L", "CIDEr-D")


def coco_tokens(captions: Sequence[str], folder: Path) -> list[list[str]]:
    """What the Java program and the scorer's list of punctuation make of captions; `folder` for a file.

    After each caption stands a line that starts a sentence, so that a last full stop is cut alike everywhere.
    """
    if shutil.which("java") is None:
        pytest.skip("no java on the PATH")
    tokenizer = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
    text = folder / "captions.txt"
    text.write_text("".join(f"{caption}\nA\n" for caption in captions), encoding="utf-8")
    jar = Path(tokenizer.__file__).with_name(tokenizer.STANFORD_CORENLP_3_4_1_JAR)
    program = "edu.stanford.nlp.process.PTBTokenizer"
    command = ["java", "-cp", str(jar), program, "-preserveLines", "-lowerCase", str(text)]
    lines = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\n")[:-1:2]
    return [[word for word in line.split() if word not in tokenizer.PUNCTUATIONS] for line in lines]


def coco_scores(
    captions: Mapping[Any, Sequence[str]], references: Mapping[Any, Sequence[Sequence[str]]]
) -> dict[str, tuple[float, dict[Any, float]]]:
    """Metric -> (corpus, image -> value) of tokenized captions."""
    bleu = pytest.importorskip("pycocoevalcap.bleu.bleu").Bleu(4)
    rouge = pytest.importorskip("pycocoevalcap.rouge.rouge").Rouge()
    cider = pytest.importorskip("pycocoevalcap.cider.cider").Cider()
    hypotheses = {image: [" ".join(words)] for image, words in captions.items()}
    texts = {image: [" ".join(words) for words in references[image]] for image in captions}
    with contextlib.redirect_stdout(io.StringIO()):
        bleus, bleus_of_images = bleu.compute_score(texts, hypotheses)
    others, others_of_images = zip(
        rouge.compute_score(texts, hypotheses), cider.compute_score(texts, hypotheses), strict=True
    )
    images = dict(zip(NAMES, [*bleus_of_images, *others_of_images], strict=True))
    return {
        name: (float(corpus), dict(zip(captions, map(float, images[name]), strict=True)))
        for name, corpus in zip(NAMES, [*bleus, *others], strict=True)
    }
