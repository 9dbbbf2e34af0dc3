"""The arguments of a command become a sorted list of picture files, or one clear line."""

from io import StringIO
from pathlib import Path

import pytest

from captioning.data.image_files import find_images
from captioning.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = [
        "b.jpg",
        "a.PNG",
        "webp.jpg",
        ".hidden.jpg",
        "captions.txt",
        "odd [1].jpg",
        "deep/c.jpg",
        "deep/down/d.jpg",
        "no_suffix",
    ]
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"any content")
    return tmp_path


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def test_a_folder_gives_its_pictures_sorted(folder: Path) -> None:
    assert names(find_images([folder])) == ["a.PNG", "b.jpg", "odd [1].jpg", "webp.jpg"]


def test_files_are_taken_whatever_their_suffix_and_each_once(folder: Path) -> None:
    found = find_images([folder / "no_suffix", folder / "b.jpg", str(folder / "b.jpg")])
    assert names(found) == ["b.jpg", "no_suffix"]


def test_patterns_match_also_in_folders_below(folder: Path) -> None:
    assert names(find_images([f"{folder}/*.jpg"])) == ["b.jpg", "odd [1].jpg", "webp.jpg"]
    assert names(find_images([f"{folder}/**/[cd].*"])) == ["c.jpg", "d.jpg"]
    assert names(find_images([f"{folder}/[d-z]*"])) == ["no_suffix", "odd [1].jpg", "webp.jpg"]


def test_a_name_with_brackets_that_exists_is_no_pattern(folder: Path) -> None:
    assert names(find_images([folder / "odd [1].jpg"])) == ["odd [1].jpg"]


def test_a_dash_reads_a_list_from_the_stream(folder: Path) -> None:
    stream = StringIO(f"{folder}/webp.jpg\r\n\n{folder}/deep\n")
    assert names(find_images(["-", folder / "b.jpg"], stream=stream)) == ["b.jpg", "c.jpg", "webp.jpg"]


def test_errors_name_the_argument_and_the_way_out(folder: Path) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: no pictures \(.*\) among its 0 files; .*\*\*"):
        find_images([folder / "empty"])
    with pytest.raises(DataError, match=r"\*\.gif: no file matches"):
        find_images([f"{folder}/*.gif"])
    with pytest.raises(DataError, match=r"absent\.jpg: no such file or folder"):
        find_images([folder / "absent.jpg"])
    with pytest.raises(DataError, match=r"-: expected a list of pictures on a stream"):
        find_images(["-"])


def test_with_on_error_the_search_goes_on(folder: Path) -> None:
    errors: list[DataError] = []
    found = find_images([folder / "absent.jpg", folder / "b.jpg", "*.none"], on_error=errors.append)
    assert names(found) == ["b.jpg"]
    assert [str(error).split(":")[0] for error in errors] == [str(folder / "absent.jpg"), "*.none"]
