"""Reading every picture once, before anything is made of it: what is broken, and what the others are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice

from captioning.data.images import load_image
from captioning.data.records import CaptionedImage
from captioning.errors import ImageError

THREADS = 4  # Decoding a picture lets go of the interpreter's lock.
_AHEAD = 4 * THREADS  # Pictures that wait to be looked at: few, so that memory stays small however many there are.


@dataclass(frozen=True)
class PictureFacts:
    """What one picture turned out to be."""

    image: CaptionedImage
    """Which."""
    fault: str | None
    """Why it can't be read, with its name; None: it can."""
    size: tuple[int, int] = (0, 0)
    """Width and height in pixels, upright; 0 where it can't be read."""
    one_color: bool = False
    """Whether all pixels are alike."""
    sha256: str = ""
    """Of the file's bytes; empty where there are none."""


def inspect_pictures(
    images: Sequence[CaptionedImage], *, progress: Callable[[int, int], None] | None = None
) -> Iterator[PictureFacts]:
    """Read and decode every picture once, in order; a broken one is a fault, never an error.

    `progress(done, total)` is called after each.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        for done, facts in enumerate(_in_order(pool, images), start=1):
            if progress is not None:
                progress(done, len(images))
            yield facts


def _in_order(pool: ThreadPoolExecutor, images: Iterable[CaptionedImage]) -> Iterator[PictureFacts]:
    coming = iter(images)
    waiting = [pool.submit(inspect_picture, image) for image in islice(coming, _AHEAD)]
    while waiting:
        yield waiting.pop(0).result()
        waiting += [pool.submit(inspect_picture, image) for image in islice(coming, 1)]


def inspect_picture(image: CaptionedImage) -> PictureFacts:
    """The facts of one picture."""
    try:
        content = image.read()
    except ImageError as error:
        return PictureFacts(image, str(error))
    digest = sha256(content).hexdigest()
    try:
        picture = load_image(content, name=str(image.path))
    except ImageError as error:
        return PictureFacts(image, str(error), sha256=digest)
    one_color = picture.getcolors(1) is not None
    return PictureFacts(image, None, picture.size, one_color, digest)
