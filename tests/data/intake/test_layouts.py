import json
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from parse_dg.data.intake.layouts import find_duplicates, list_images
from parse_dg.data.intake.own import list_own
from parse_dg.data.listing import Listing
from parse_dg.data.public.catalogue import DATA_SETS, DataSet
from tests.parts import refusal

PACS, VLCS, OFFICE = DATA_SETS["pacs"], DATA_SETS["vlcs"], DATA_SETS["officehome"]
TERRA, NET, CUB = DATA_SETS["terraincognita"], DATA_SETS["domainnet"], DATA_SETS["cub-dg"]


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def plant(root: Path, data_set: DataSet, domains: dict[str, str] | None = None, classes: int = 3) -> None:
    """Two files in each of the first classes of every domain; `domains` gives the folder of some domains."""
    for domain in data_set.domains:
        place = root / (domains or {}).get(domain, domain)
        for name in data_set.classes[:classes]:
            touch(place / name / "b.jpg", place / name / "a.PNG")


def shown(listing: Listing, domain: int = 0) -> list[tuple[str, str]]:
    """(class, file) of a domain's images."""
    return [(listing.classes[i.label], Path(i.path).name) for i in listing.images if i.domain == domain]


def reasons(listing: Listing) -> dict[str, str]:
    return dict(listing.skipped)


def image_folder_order(root: Path) -> list[str]:
    """What torchvision's ImageFolder lists, written down independently."""
    found = []
    for name in sorted(entry.name for entry in os.scandir(root) if entry.is_dir()):
        for folder, _, files in sorted(os.walk(root / name, followlinks=True)):
            found += [f"{folder}/{file}" for file in sorted(files) if file.lower().endswith((".jpg", ".png"))]
    return [str(Path(path).relative_to(root.parent)) for path in found]


@pytest.mark.parametrize("data_set", DATA_SETS.values(), ids=list(DATA_SETS))
@pytest.mark.parametrize("above", ["", "data", "some/data/here"])
def test_domainbed_folders_are_found_a_few_levels_deep(tmp_path: Path, data_set: DataSet, above: str) -> None:
    plant(tmp_path / above, data_set)
    touch(tmp_path / "other" / "notes.txt")
    listing = list_images(data_set, tmp_path)
    assert listing.root == tmp_path / above
    assert listing.domains == data_set.domains
    assert listing.classes == data_set.classes
    assert len(listing.images) == len(data_set.domains) * 3 * 2
    expected = [(name, file) for name in data_set.classes[:3] for file in ("a.PNG", "b.jpg")]
    for number in range(len(data_set.domains)):
        assert shown(listing, number) == expected
    assert all((listing.root / image.path).is_file() for image in listing.images)
    assert [image.domain for image in listing.images] == sorted(image.domain for image in listing.images)


@pytest.mark.parametrize(
    ("data_set", "above", "domains", "layout"),
    [
        (PACS, "PACS", {}, "DomainBed's"),
        (PACS, "kfold", {}, "the original archive's"),
        (PACS, "pacs_data", {"art_painting": "art painting"}, "the original archive's"),
        (PACS, "pacs/images", {}, "Dassl's"),
        (OFFICE, "OfficeHomeDataset_10072016", {}, "the original archive's"),
        (OFFICE, "office_home", {"Art": "art", "Real World": "real_world"}, "DomainBed's"),
        (OFFICE, "OfficeHome", {"Real World": "RealWorld"}, "DomainBed's"),
        (TERRA, "terra_incognita", {"location_38": "L38"}, "DomainBed's"),
        (NET, "domainnet", {"clipart": "clipart/clipart", "sketch": "sketch/sketch"}, "DomainBed's"),
        (CUB, "CUB-DG", {}, "GVRT's"),
    ],
)
def test_other_arrangements(
    tmp_path: Path, data_set: DataSet, above: str, domains: dict[str, str], layout: str
) -> None:
    plant(tmp_path / above, data_set, domains)
    touch(tmp_path / "splits" / "photo_train_kfold.txt")
    listing = list_images(data_set, tmp_path)
    assert listing.layout.startswith(layout)
    assert len(listing.images) == len(data_set.domains) * 3 * 2
    assert [shown(listing, n) for n in range(len(data_set.domains))] == [shown(listing)] * len(data_set.domains)


def test_splits_of_vlcs_are_merged_and_full_stands_alone(tmp_path: Path) -> None:
    for domain in ("CALTECH", "LABELME", "PASCAL", "SUN"):
        for split, file in (("train", "c.jpg"), ("crossval", "a.jpg"), ("test", "b.jpg")):
            for label in range(5):
                touch(tmp_path / domain / split / str(label) / file)
    listing = list_images(VLCS, tmp_path)
    assert listing.layout == "the original archive's: domain/split/class/image"
    # as if the split folders were one, so that a seeded hold-out is that of the plain folders
    expected = [(name, file) for name in VLCS.classes for file in ("a.jpg", "b.jpg", "c.jpg")]
    assert [shown(listing, n) for n in range(4)] == [expected] * 4
    note = "of each domain the images in crossval and test and train are taken, as if in one folder"
    assert note in listing.notes
    assert listing.images[0].id == "CALTECH/crossval/0/a"

    touch(*(tmp_path / "CALTECH" / "full" / str(label) / "whole.jpg" for label in range(5)))
    listing = list_images(VLCS, tmp_path)
    assert shown(listing, 0) == [(name, "whole.jpg") for name in VLCS.classes]
    assert shown(listing, 1) == expected


def test_order_is_that_of_image_folder(tmp_path: Path) -> None:
    draw = random.Random(0)
    names = ["A", "a", "b 1", "b", "b.1", "b_1", "Z", "ä", "日本", "10", "9"]
    for domain in PACS.domains:
        for name in PACS.classes:
            for _ in range(30):
                depth = [draw.choice(names) for _ in range(draw.randrange(3))]
                file = draw.choice(names) + draw.choice([".jpg", ".PNG"])
                touch(tmp_path.joinpath(domain, name, *depth, "in", file))
    listing = list_images(PACS, tmp_path)
    for number, domain in enumerate(PACS.domains):
        paths = [image.path for image in listing.images if image.domain == number]
        assert len(paths) > 100
        assert paths == image_folder_order(tmp_path / domain)
    assert [image.path for image in list_own(tmp_path).images] == [image.path for image in listing.images]


def test_ids_are_paths_without_extension_and_unique_in_a_domain(tmp_path: Path) -> None:
    plant(tmp_path, PACS, classes=1)
    touch(tmp_path / "photo" / "dog" / "a.jpg")  # beside a.PNG
    ids = [image.id for image in list_images(PACS, tmp_path).images]
    assert "cartoon/dog/a" in ids
    assert {"photo/dog/a.PNG", "photo/dog/a.jpg", "photo/dog/b"} < set(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("given", [False, True])
def test_listed_duplicates_are_left_out(tmp_path: Path, given: bool) -> None:
    plant(tmp_path / "net", NET, {"real": "Real"}, classes=2)
    first = NET.classes[0]
    place = tmp_path / "list.txt" if given else tmp_path / "net" / "domain_net_duplicates.txt"
    place.write_text(f"clipart/{first}/b.jpg\nreal/{first}/b.jpg\nsketch/zebra/not_there.jpg\n")
    listing = list_images(NET, tmp_path / "net", place if given else None)
    assert reasons(listing) == {
        f"clipart/{first}/b.jpg": "published duplicate",
        f"Real/{first}/b.jpg": "published duplicate",
    }
    assert len(listing.images) == 6 * 4 - 2
    assert f"2 published duplicates are left out, by {place}" in listing.notes


def test_the_published_list_is_what_lies_between_the_two_versions_of_domainnet() -> None:
    names = find_duplicates("domainnet", (), None)[0]
    assert len(names) == 9_431
    cleaned, raw = (version.counts for version in NET.expected)
    per_domain = Counter(name.split("/")[0] for name in names)
    assert [per_domain[domain] for domain in NET.domains] == [r - c for r, c in zip(raw, cleaned, strict=True)]
    for name in names:
        domain, class_name, file = name.split("/")
        assert class_name in NET.classes
        assert re.fullmatch(rf"{domain}_\d{{3}}_\d{{6}}\.jpg", file)


@pytest.mark.parametrize(
    ("content", "message"), [(b"\xff", "cannot read .*list.txt"), (b"photo.jpg\n", "line 1: expected")]
)
def test_a_list_that_is_none_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    plant(tmp_path, NET, classes=1)
    (tmp_path / "list.txt").write_bytes(content)
    assert re.search(message, refusal(list_images, NET, tmp_path, tmp_path / "list.txt"))


def annotations(locations: bool = True) -> dict[str, object]:
    places: dict[str, object] = {"one": "38", "two": 100, "three": "43", "four": "46", "elsewhere": "7"}
    places |= {"lost": "38", "car": "38"}
    images = [
        {"id": f"i{number}", "file_name": f"{name}.jpg"} | ({"location": place} if locations else {})
        for number, (name, place) in enumerate(places.items(), 1)
    ]
    categories = [{"id": number, "name": name} for number, name in enumerate(("bird", "squirrel", "car"), 1)]
    pairs = [("i1", 2), ("i1", 1), ("i1", 1), ("i2", 1), ("i3", 2), ("i4", 1), ("i5", 1), ("i6", 1), ("i7", 3)]
    annotated = [{"image_id": image, "category_id": category} for image, category in pairs]
    return {"images": images, "categories": categories, "annotations": annotated}


def plant_traps(root: Path) -> None:
    for file in ("one", "two", "three", "four", "elsewhere", "car", "unlisted"):
        touch(root / "eccv_18_all_images_sm" / f"{file}.jpg")


def test_camera_traps_are_read_from_their_annotations(tmp_path: Path) -> None:
    plant_traps(tmp_path)
    (tmp_path / "caltech_images_20210113.json").write_text(json.dumps(annotations()))
    listing = list_images(TERRA, tmp_path)
    assert [(TERRA.domains[i.domain], TERRA.classes[i.label], i.path) for i in listing.images] == [
        ("location_100", "bird", "eccv_18_all_images_sm/two.jpg"),
        ("location_38", "bird", "eccv_18_all_images_sm/one.jpg"),
        ("location_38", "squirrel", "eccv_18_all_images_sm/one.jpg"),  # two classes: DomainBed copies it to both
        ("location_43", "squirrel", "eccv_18_all_images_sm/three.jpg"),
        ("location_46", "bird", "eccv_18_all_images_sm/four.jpg"),
    ]
    assert listing.images[1].id == "location_38/bird/one"
    assert reasons(listing) == {"eccv_18_all_images_sm/lost.jpg": "annotated, but not on disk"}
    assert "1 annotated images are not on disk" in listing.notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "expected images .*not found: list"),
        ("{}", "expected images .*not found: 'categories'"),
        (json.dumps(annotations(locations=False)), "not found: 'location'"),
    ],
)
def test_broken_annotations_are_named(tmp_path: Path, content: str, message: str) -> None:
    plant_traps(tmp_path)
    (tmp_path / "caltech_images_20210113.json").write_text(content)
    assert re.search(message, refusal(list_images, TERRA, tmp_path))


def test_annotations_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    plant_traps(tmp_path / "data")
    touch(tmp_path / "secret.jpg")
    content = annotations()
    content["images"][0]["file_name"] = "../../secret.jpg"  # type: ignore[index]
    (tmp_path / "data" / "caltech_images_20210113.json").write_text(json.dumps(content))
    assert "found none of location_38" in refusal(list_images, TERRA, tmp_path / "data")


@pytest.mark.parametrize("own", [False, True])
def test_links_are_followed_inside_and_never_out(tmp_path: Path, own: bool) -> None:
    data, outside = tmp_path / "data", tmp_path / "outside"
    plant(data / "set", PACS)
    touch(outside / "x.jpg", data / "shared" / "deep" / "y.jpg", tmp_path / "data-too" / "z.jpg")
    dog = data / "set" / "photo" / "dog"
    (dog / "file_in.jpg").symlink_to(dog / "b.jpg")
    (dog / "folder_in").symlink_to(data / "shared")
    (dog / "file_out.jpg").symlink_to(outside / "x.jpg")
    (dog / "folder_out").symlink_to(outside)
    (dog / "similar_name").symlink_to(tmp_path / "data-too")
    (dog / "nowhere.jpg").symlink_to(dog / "gone.jpg")
    (dog / "itself").symlink_to(dog / "itself")
    (dog / "up").symlink_to(data)
    (dog / "round").symlink_to(dog)
    (data / "shared" / "back").symlink_to(dog)
    listing = list_own(data / "set") if own else list_images(PACS, data)
    files = {Path(image.path).name for image in listing.images if image.path.startswith("photo/dog/")}
    expected = {
        "photo/dog/file_out.jpg": "link leads out of the folder",
        "photo/dog/folder_out": "link leads out of the folder",
        "photo/dog/similar_name": "link leads out of the folder",
        "photo/dog/nowhere.jpg": "link leads nowhere",
        "photo/dog/itself": "link leads nowhere",
        "photo/dog/round": "link leads back to a folder it lies in",
    }
    if own:  # here the folder that was given ends at set
        assert files == {"a.PNG", "b.jpg", "file_in.jpg"}
        expected |= dict.fromkeys(("photo/dog/folder_in", "photo/dog/up"), "link leads out of the folder")
    else:
        assert files == {"a.PNG", "b.jpg", "file_in.jpg", "y.jpg"}
        back = ("photo/dog/up", "photo/dog/folder_in/back")
        expected |= dict.fromkeys(back, "link leads back to a folder it lies in")
    assert reasons(listing) == expected


def test_missing_domains_are_named(tmp_path: Path) -> None:
    plant(tmp_path, PACS)
    for name in ("photo", "sketch"):
        (tmp_path / name).rename(tmp_path / f"my {name}")
    said = refusal(list_images, PACS, tmp_path)
    assert re.search(r"domains art_painting, cartoon, photo, sketch of PACS.*no folder for photo, sk", said)


def test_what_was_found_instead_is_named(tmp_path: Path) -> None:
    touch(*(tmp_path / f"folder{n}" / "x.txt" for n in range(9)))
    assert "found folder0, folder1, folder2, folder3, folder4 and 4 more" in refusal(list_images, PACS, tmp_path)
    (tmp_path / "empty").mkdir()
    assert "found no folder" in refusal(list_images, PACS, tmp_path / "empty")


@pytest.mark.parametrize("list_it", [list_own, lambda folder: list_images(PACS, folder)])
def test_a_file_or_nothing_is_no_folder(tmp_path: Path, list_it: object) -> None:
    assert callable(list_it)
    touch(tmp_path / "file")
    assert "found a file" in refusal(list_it, tmp_path / "file")
    assert "found nothing" in refusal(list_it, tmp_path / "gone")


def test_own_folders(tmp_path: Path) -> None:
    files = (
        "Night/cat/2.jpg",
        "Night/cat/10.WebP",
        "readme.txt",
        "day/owl/a.tiff",
        "day/cat/more/b.bmp",
        "splits/s",
    )
    touch(*(tmp_path / file for file in files))
    listing = list_own(tmp_path)
    assert listing.domains == ("Night", "day")
    assert listing.classes == ("cat", "owl")
    assert [tuple(image) for image in listing.images] == [
        ("Night/cat/10.WebP", 0, 0, "Night/cat/10"),
        ("Night/cat/2.jpg", 0, 0, "Night/cat/2"),
        ("day/cat/more/b.bmp", 1, 0, "day/cat/more/b"),
        ("day/owl/a.tiff", 1, 1, "day/owl/a"),
    ]
    assert reasons(listing) == {"splits": "folder holds no class folder with images"}
    assert listing.notes == ("Night has no image of owl",)


def test_own_folders_without_domains_are_one_domain(tmp_path: Path) -> None:
    touch(tmp_path / "cat" / "1.jpg", tmp_path / "owl" / "2.jpg", tmp_path / "owl" / "more" / "3.jpg")
    listing = list_own(tmp_path)
    assert (listing.domains, listing.classes) == ((tmp_path.name,), ("cat", "owl"))
    assert listing.layout == "folders: class/image, one domain"
    assert [image.path for image in listing.images] == ["cat/1.jpg", "owl/2.jpg", "owl/more/3.jpg"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["1.jpg"], "found images without a class folder"),
        (["notes/a.txt"], "found notes/a.txt|found notes, no images"),
        (["wrap/day/cat/1.jpg", "wrap/fog/cat/1.jpg"], "found only wrap; if the domains are inside it, give that"),
        (["cat/1.jpg", "owl/1.jpg", "dog/more/1.jpg"], "found cat, owl with images and dog with folders of images"),
        (["train/cat/1.jpg", "Test/cat/1.jpg"], "Test and train look like parts of a data set, not domains: give"),
        (["day/train/cat/1.jpg", "fog/test/cat/1.jpg"], "test and train look like parts of a data set, not class"),
        (["day/Owl/1.jpg", "fog/owl/1.jpg"], "the classes 'Owl' and 'owl' differ only in capitals or blanks"),
    ],
)
def test_own_folders_that_would_be_misread_are_refused(tmp_path: Path, files: list[str], expected: str) -> None:
    touch(*(tmp_path / file for file in files))
    assert re.search(expected, refusal(list_own, tmp_path))
