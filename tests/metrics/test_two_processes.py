"""Several processes give the scores of one, however the sampler pads (case H56)."""

import json
import os
import subprocess
import sys
from pathlib import Path

from captioning.metrics import score
from tests.metrics.five_images import CAPTIONS, METRICS, REFERENCES


def test_each_image_counts_once_however_the_sampler_pads(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("two_processes.py"))
    root = Path(__file__).parents[2]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
    processes = [
        subprocess.Popen([sys.executable, script, str(rank), str(tmp_path)], cwd=root, env=environment)
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=300) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    alone = score(CAPTIONS, REFERENCES, METRICS)
    for rank in range(2):
        found = json.loads((tmp_path / f"rank_{rank}.json").read_text(encoding="utf-8"))
        assert found == {"images": sorted(REFERENCES), "corpus": alone.corpus, "per_image": alone.per_image}
