"""Training by the command with each tokenizer: it is saved with the captioner, which speaks plain text."""

import pytest

import captioning
from tests.cases.making import board, write_rows
from tests.cli.conftest import SMALL, call


@pytest.mark.parametrize("name", ["character", "subword"])
def test_a_captioner_keeps_its_tokenizer(name, tmp_path, capsys):
    pytest.importorskip("tokenizers")
    captions = ["一只狗在雪地里", "一只猫在雪地里", "كلب يركض", "A dog, in red."]
    for number in range(8):
        board().rotate(45 * number).save(tmp_path / f"{number}.png")
    rows = [(f"{n}.png", captions[n % 4], "val" if n > 5 else "train") for n in range(8)]
    data = ("--data.captions", write_rows(tmp_path / "rows.jsonl", *rows), "--data.tokenizer", name)
    assert call("train", *SMALL, *data, "--output", tmp_path, "--name", "run", "--trainer.max_epochs", 1) == 0
    captioner = captioning.load(tmp_path / "run")
    assert captioner.vocabulary.tokenizer.name == name
    [scored] = captioner.score([tmp_path / "0.png"], ["一只狗在雪地里"])
    assert scored.text == "一只狗在雪地里"
    assert captioner.vocabulary.join(scored.words) == scored.text
    assert len(scored.log_probabilities) == len(scored.words) + 1
    [said] = captioner.caption([tmp_path / "0.png"])
    assert said.text == captioner.vocabulary.join(said.words)
    assert captioning.load(tmp_path / "run" / "checkpoints" / "last.ckpt").vocabulary == captioner.vocabulary
