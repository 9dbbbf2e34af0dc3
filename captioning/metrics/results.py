"""Predictions as the COCO results format has them: a list of {"image_id": ..., "caption": ...}."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from captioning.errors import DataError


def captions_by_image(results: Iterable[Mapping[str, Any]]) -> dict[Any, str]:
    """Image -> caption, ids as they are (7 and "007" differ); an image that comes twice is a DataError."""
    pairs = []
    for place, row in enumerate(results):
        if not isinstance(row, Mapping) or not isinstance(row.get("caption"), str) or "image_id" not in row:
            raise DataError(
                f"predictions: row {place} should have an image_id and a caption that is text, but is {row!r}"
            )
        pairs.append((row["image_id"], row["caption"]))
    repeated = [image for image, count in Counter(image for image, _ in pairs).items() if count > 1]
    if repeated:
        examples = ", ".join(repr(image) for image in repeated[:3])
        raise DataError(
            f"predictions: one caption an image is expected, but {len(repeated)} of the images have more "
            f"({examples}); keep one of each"
        )
    return dict(pairs)
