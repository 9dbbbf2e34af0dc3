"""Train on two processes (gloo) and write what each ends with; started by test_module.py."""

import sys
from pathlib import Path

import torch

from tests.training import small_run


def main() -> None:
    module, loaders = small_run.make(7, batch_size=2)
    made = small_run.fit(module, loaders, devices=2, strategy="ddp", max_epochs=2)
    content = {"weights": module.captioner.state_dict(), "predictions": module.predictions}
    torch.save(content, Path(sys.argv[1]) / f"rank_{made.global_rank}.pt")


if __name__ == "__main__":
    main()
