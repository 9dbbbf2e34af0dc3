"""The command `captioning`: picks the command's file, and turns errors of the input into one clear line."""

import errno
import sys
from collections.abc import Sequence
from importlib import import_module

import captioning
from captioning.errors import CaptioningError

# A command's module is imported only when it is called, so that --help answers at once.
COMMANDS = {
    "train": "train a captioner on pictures and captions",
    "caption": "caption pictures, and show where the model looked for each word",
    "evaluate": "score a captioner, or captions in a file, against reference captions",
    "features": "run the CNN once over all pictures and store what it gives",
    "export": "write a captioner as graphs for other programs (torch.export or ONNX), with a plain loop",
    "validate": "look at captions and pictures once: what is broken, missing, doubled or odd",
    "ablate": "compare variants over seeds, and report how sure the differences are",
    "estimators": "compare estimators of hard attention's gradient: bias, variance and cost",
    "inspect": "measure attention maps: what they are worth to a model, and what they can be used for",
    "reproduce": "score models beside what was published, with the circumstances of every number",
    "demo": "draw a small set, train on it, and show captions with their maps",
}
DONE, WRONG_CALL, INTERRUPTED = 0, 2, 130
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 all was done, 1 some inputs failed (each named on stderr), 2 a wrong call."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return DONE if arguments else WRONG_CALL
    if arguments[0] == "--version":
        print(f"captioning {captioning.__version__}")
        return DONE
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"captioning: there is no command {name!r}; {_nearest(name)}", file=sys.stderr)
        return WRONG_CALL
    return _run(name, rest)


def _run(name: str, arguments: list[str]) -> int:
    try:
        status: int = import_module(f"captioning.cli.{name}").run(arguments)
    except CaptioningError as error:
        print(f"captioning {name}: {error}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        print(f"captioning {name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return DONE
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        place = f"{error.filename}: " if error.filename else ""
        print(
            f"captioning {name}: {place}can't be written ({error.strerror}); make room and run again", file=sys.stderr
        )
        return WRONG_CALL
    return status


def _help() -> str:
    lines = [f"  {name:<10} {purpose}" for name, purpose in COMMANDS.items()]
    return "\n".join(
        [
            "usage: captioning COMMAND ...",
            "",
            "Image captioning with attention: train captioners, caption pictures, see where the model looked.",
            "",
            *lines,
            "",
            "captioning COMMAND --help tells a command's options.",
        ]
    )


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    return f"did you mean {near[0]!r}?" if near else f"commands are {', '.join(COMMANDS)}"


if __name__ == "__main__":
    sys.exit(main())
