"""`captioning train`: train a captioner as a config says."""

from collections.abc import Sequence

from captioning.cli.progress import report, show_log
from captioning.cli.settings import parse_training_config


def run(arguments: Sequence[str]) -> int:
    """Train, save the best captioner in the run's folder, and print its scores."""
    config = parse_training_config(arguments, prog="captioning train")
    show_log()
    from captioning.metrics.table import score_table
    from captioning.run.processes import leads
    from captioning.run.train import train  # torch and Lightning take seconds: not before the call is right

    result = train(config, report=report)
    if leads():
        print(score_table({result.folder.name: result.scores}))
        print(f"\ncaptioner: {result.folder / 'model'}\ncaption pictures: captioning caption {result.folder} PHOTO.jpg")
    return 0
