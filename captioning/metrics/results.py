"""Predictions as the COCO results format has them: a list of {"image_id": ..., "caption": ...}."""

from collections.abc import Iterable, Mapping
from typing import Any

from captioning.errors import DataError


def samples_by_image(results: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Image -> its captions, ids as text ("007" stays what it is)."""
    captions: dict[str, list[str]] = {}
    for place, row in enumerate(results):
        image = row.get("image_id") if isinstance(row, Mapping) else None
        known = isinstance(image, int | str) and not isinstance(image, bool)
        if not known or not isinstance(row.get("caption"), str):
            raise DataError(
                f"predictions: row {place} should have an image_id and a caption that is text, but is {row!r}"
            )
        captions.setdefault(str(image), []).append(row["caption"])
    return captions


def one_each(captions: Mapping[str, list[str]]) -> dict[str, str]:
    """Image -> caption; an image that comes twice is a DataError."""
    repeated = [image for image, several in captions.items() if len(several) > 1]
    if repeated:
        examples = ", ".join(map(repr, repeated[:3]))
        raise DataError(
            f"predictions: one caption an image is expected, but {len(repeated)} of the images have more "
            f"({examples}); keep one of each, or have several described with --several"
        )
    return {image: caption for image, [caption] in captions.items()}


def captions_by_image(results: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Image -> caption, ids as text; an image that comes twice is a DataError."""
    return one_each(samples_by_image(results))
