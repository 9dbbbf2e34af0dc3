"""Write a captioner's two functions as graphs, beside a description and a loop that captions with them."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from captioning.captioner import FORBIDDEN, Captioner, evaluation_mode
from captioning.decoders.transformer import LONGEST
from captioning.disk import whole_folder, write_json, write_text, write_whole
from captioning.errors import ConfigError
from captioning.export import loop
from captioning.export.programs import StateTensors, make_programs
from captioning.text.vocabulary import END, START

FORM_SUFFIXES = {"torch": ".pt2", "onnx": ".onnx"}
DESCRIPTION, LOOP = "export.json", "loop.py"
_EXAMPLE_STEPS = 3
"""Words before the example of a state that grows; of the length 0 or 1 a graph would be made for that length alone."""


def export_captioner(captioner: Captioner, folder: Path, *, form: str = "torch", batch_size: int = 1) -> Path:
    """Write encoder, step, `export.json` and `loop.py` into `folder`, whole or not at all.

    The graphs take batches of `batch_size` pictures. Raises ConfigError for a test-time rule that draws at random, a
    decoder that the form can't express, or a missing extra; DiskError where nothing can be written.
    """
    if form == "onnx" and any(find_spec(name) is None for name in ("onnx", "onnxscript")):
        raise ConfigError("export: expected the packages onnx and onnxscript for --form onnx; install captioning[onnx]")
    with (
        torch.no_grad(),
        evaluation_mode(captioner),
        captioner.looking(captioner.default_search),
        whole_folder(folder) as fresh,
    ):
        encoder, step = make_programs(captioner)
        size = captioner.encoder.preprocessing.size
        pixels = torch.zeros(batch_size, 3, size, size)
        names = {
            "encoder": (["pixels"], ["regions", *step.state.names]),
            "step": (
                ["regions", "words", *step.state.names],
                ["log_probabilities", "weights", *(f"next_{name}" for name in step.state.names)],
            ),
        }
        _write_graph(fresh, "encoder", encoder, (pixels,), None, form, names)
        inputs = _step_inputs(encoder, step, pixels)
        _write_graph(fresh, "step", step, inputs, _dynamic(step.state, inputs), form, names)
        write_json(fresh / DESCRIPTION, _description(captioner, step.grid, form, batch_size, names))
        write_text(fresh / LOOP, Path(loop.__file__).read_text(encoding="utf-8"))
    return folder


Names = dict[str, tuple[list[str], list[str]]]


def _write_graph(
    folder: Path, name: str, program: nn.Module, inputs: Sequence[Tensor], dynamic: Any, form: str, names: Names
) -> None:
    path = folder / f"{name}{FORM_SUFFIXES[form]}"
    with _quiet():
        exported = _exported(program, tuple(inputs), dynamic)
        if form == "torch":
            buffer = io.BytesIO()
            torch.export.save(exported, buffer)
            content: bytes | memoryview = buffer.getbuffer()
        else:
            content = _onnx(exported, *names[name])
    write_whole(path, content)


def _exported(program: nn.Module, inputs: tuple[Tensor, ...], dynamic: Any) -> ExportedProgram:
    try:
        return torch.export.export(program, inputs, dynamic_shapes=dynamic, strict=False)
    except Exception as error:  # torch raises many kinds here
        raise ConfigError(f"export: torch can't make a graph of this captioner ({_first_line(error)})") from error


def _onnx(exported: ExportedProgram, inputs: list[str], outputs: list[str]) -> bytes:
    try:
        made = torch.onnx.export(exported, dynamo=True, input_names=inputs, output_names=outputs, verbose=False)
    except Exception as error:  # as above
        raise ConfigError(
            f"export: ONNX can't express this captioner ({_first_line(error)}); take --form torch"
        ) from error
    assert made is not None
    content: bytes = made.model_proto.SerializeToString()
    return content


def _step_inputs(encoder: nn.Module, step: nn.Module, pixels: Tensor) -> list[Tensor]:
    """An example: regions, words and the state after a few words."""
    regions, *state = encoder(pixels)
    words = torch.full((len(pixels),), START)
    for _ in range(_EXAMPLE_STEPS):
        _, _, *state = step(regions, words, *state)
    return [regions, words, *state]


def _dynamic(state: StateTensors, inputs: Sequence[Tensor]) -> Any:
    if state.growing_axis is None:
        return None
    length = Dim("length", min=0, max=LONGEST - 1)
    return (None, None, tuple({state.growing_axis: length} for _ in inputs[2:]))


def _description(
    captioner: Captioner, grid: tuple[int, int], form: str, batch_size: int, names: Names
) -> dict[str, Any]:
    search = captioner.default_search
    return {
        "files": {name: f"{name}{FORM_SUFFIXES[form]}" for name in names},
        "inputs": {name: inputs for name, (inputs, _) in names.items()},
        "outputs": {name: outputs for name, (_, outputs) in names.items()},
        "batch_size": batch_size,
        "preprocessing": captioner.encoder.preprocessing.to_dict(),
        "rows": grid[0],
        "columns": grid[1],
        "start": START,
        "end": END,
        "forbidden": list(FORBIDDEN),
        "minimum_length": search.minimum_length,
        "maximum_length": search.maximum_length,
        "test_time_rule": search.test_time_rule,
        "vocabulary": captioner.vocabulary.to_list(),
    }


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's own notices on the way."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
