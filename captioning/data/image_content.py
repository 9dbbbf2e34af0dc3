"""What a file that is no picture seems to be, told from its first bytes: for error messages only."""

HEAD_SIZE = 512
"""How many of the first bytes are enough to tell."""

_MARKS = (
    (b"version https://git-lfs", "a Git LFS pointer: the picture itself has not been fetched"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"Rar!", "a RAR archive"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM video"),
    (b"ID3", "an MP3 sound file"),
    (b"OggS", "an Ogg sound or video file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF", "an HDF5 file"),
    (b"#!", "a script"),
)
_JPEG_PNG_GIF_WEBP_TIFF = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"RIFF", b"II*\x00", b"MM\x00*")


def is_picture(head: bytes) -> bool:
    """Whether a file that begins with `head` is a JPEG, PNG, GIF, WebP or TIFF, whatever its name."""
    return head.startswith(_JPEG_PNG_GIF_WEBP_TIFF) and (head[:4] != b"RIFF" or head[8:12] == b"WEBP")


def describe_content(head: bytes) -> str:
    """The kind of file that begins with `head`, as words to stand after "it seems to be"."""
    if not head.strip(b"\x00"):
        return "an empty file" if not head else "nothing but zero bytes (a broken download)"
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    if head.startswith(_JPEG_PNG_GIF_WEBP_TIFF):
        return "the beginning of a picture, damaged or cut off"
    if head[4:8] == b"ftyp":
        return _describe_media_container(head[8:12])
    return _describe_text(head)


def _describe_media_container(brand: bytes) -> str:
    if brand[:3] in (b"hei", b"hev", b"mif"):
        return "a HEIC photo, which has to be converted to JPEG or PNG first"
    return "a video"


def _describe_text(head: bytes) -> str:
    try:
        text = head.decode("utf-8-sig", errors="ignore" if len(head) == HEAD_SIZE else "strict").strip()
    except UnicodeDecodeError:
        return "data of an unknown kind"
    start = text[:200].lower()
    if "<svg" in start:
        return "an SVG drawing, which has to be turned into pixels first"
    if start.startswith("<!doctype html") or "<html" in start or "<body" in start:
        return "an HTML page (often an error page stored by a download)"
    if start.startswith("<?xml"):
        return "an XML file"
    if start.startswith(("{", "[")):
        return "a JSON file"
    if not all(letter.isprintable() or letter.isspace() for letter in text):
        return "data of an unknown kind"
    return f"a text file that begins {text[:40]!r}"
