"""Caption a share of the images in one of two processes (gloo), gather as validation does, and write the scores.

Started by test_two_processes.py; the sampler pads: 5 images become 6, one of them twice.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch.distributed as distributed
from torch.utils.data import DistributedSampler

from captioning.metrics import Scorer
from captioning.training.module import CaptioningModule
from tests.metrics.five_images import CAPTIONS, METRICS, REFERENCES


def main(rank: int, folder: Path) -> None:
    store = f"file://{folder / 'meeting'}"
    distributed.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    images = list(REFERENCES)
    sampler = DistributedSampler(images, num_replicas=2, rank=rank, shuffle=False)
    own = [images[place] for place in sampler]
    assert len(own) == 3
    validated = SimpleNamespace(
        predictions={image: CAPTIONS[image] for image in own},
        _nats=float(len(own)),
        _words=len(own),
        trainer=SimpleNamespace(world_size=2),
    )
    predictions, _, _ = CaptioningModule._gather(validated)
    scores = Scorer(REFERENCES, METRICS).score(predictions)
    content = {"images": sorted(predictions), "corpus": scores.corpus, "per_image": scores.per_image}
    (folder / f"rank_{rank}.json").write_text(json.dumps(content), encoding="utf-8")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
