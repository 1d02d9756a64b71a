"""Faces of primitives, and classes as cards made of them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from parse_dg.errors import InputError
from parse_dg.explain import faces
from parse_dg.explain.classes import FACE, arrange, class_cards
from parse_dg.explain.faces import FACES, Face, choose, cut_out, faces_of, sample
from parse_dg.explain.measures.images import locate
from parse_dg.runs.afterwards import opened
from parse_dg.runs.afterwards.opened import open_run


def test_the_strongest_of_different_domains_and_classes() -> None:
    evidence = np.array([9.0, 8.0, 7.0, 6.0, 5.0])
    domains, labels = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])
    assert choose(evidence, domains, labels, 3) == [0, 3, 4]  # 4: its class is taken, its domain is new
    assert choose(evidence[:2], domains[:2], labels[:2], 3) == [0, 1]


def test_a_patch_is_whole_and_has_the_peak_in_its_middle() -> None:
    image = torch.arange(3 * 20 * 20).remainder(251).to(torch.uint8).view(3, 20, 20)
    middle = cut_out(image, np.array([10 / 19, 9 / 19]))  # column 10, row 9, of 7 × 7
    assert (middle[3, 3] == image[:, 9, 10].numpy()).all()
    corner = cut_out(image, np.array([1.0, 0.0]))
    assert (corner == image[:, :7, 13:].permute(1, 2, 0).numpy()).all()


def test_faces_are_of_source_training_images_found_once_and_kept(
    parse_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(parse_copy, device="cpu")
    found = faces_of(run)
    assert found is not None
    assert found.images.keys() == {"photo", "cartoon", "paint"}  # sketch is the target
    trained = {subset.domain.name: set(subset.indices.tolist()) for subset in run.split.training}
    assert len(found.faces) == 16
    for mine in found.faces:
        assert len({face.domain for face in mine}) == 3
        assert all(face.index in trained[face.domain] for face in mine)
        assert all(face.pixels().shape == (22, 22, 3) for face in mine)
    subset = sample(run.split.training[0], faces.IMAGES)
    network = run.model.parse_network()
    images = torch.from_numpy(np.stack([subset.domain.images[n] for n in subset.indices])).permute(0, 3, 1, 2)
    with torch.no_grad():
        strongest = network.bottleneck.evidence(network.backbone(run.model.prepare(images))).amax((0, 2, 3))
    best = torch.tensor([max(f.evidence for f in mine if f.domain == subset.domain.name) for mine in found.faces])
    assert (best <= strongest + 1e-3).all()
    assert ((best - strongest).abs() < 1e-3).float().mean() > 0.2  # unless its class was taken
    kept = (parse_copy / FACES).read_bytes()
    monkeypatch.setattr(faces, "find_faces", lambda run: pytest.fail("found again"))
    assert faces_of(open_run(parse_copy, device="cpu")) == found
    monkeypatch.undo()
    (parse_copy / FACES).write_bytes(kept.replace(b'"primitives":"', b'"primitives":"0'))  # of another training
    assert faces_of(open_run(parse_copy, device="cpu")) == found
    assert (parse_copy / FACES).read_bytes() == kept


def test_where_there_are_no_images_there_are_no_faces(
    parse_copy: Path, erm_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: object) -> None:
        raise InputError("the images are on another machine")

    (parse_copy / FACES).unlink(missing_ok=True)  # another test may have looked at the run
    monkeypatch.setattr(opened, "open_benchmark", gone)
    assert faces_of(open_run(parse_copy, device="cpu")) is None
    assert faces_of(open_run(parse_copy / "model.safetensors", device="cpu")) is None
    assert faces_of(open_run(erm_run, device="cpu")) is None


@pytest.mark.parametrize("image", ["https://example.org/x.png", "data:image/svg+xml;base64,AAAA", 'data:"><b>'])
def test_a_face_is_a_picture_that_is_there(image: str) -> None:
    with pytest.raises(InputError, match="a face must be a PNG or JPEG"):
        Face(domain="photo", index=0, label="cat", evidence=1.0, image=image)


def test_a_card_has_the_mean_layout_of_its_class(parse_copy: Path) -> None:
    run = open_run(parse_copy, device="cpu")
    found = faces_of(run)
    assert found is not None
    (card,) = class_cards(run.model, found, ["diver"])
    assert all(len(term.primitives) > 1 for term in card.relations)
    assert [place.primitive for place in card.places] == sorted({k for t in card.relations for k in t.primitives})
    located = [locate(run.model, sample(subset, faces.IMAGES)) for subset in run.split.training]
    mine = [each.labels == run.classes.index("diver") for each in located]
    assert card.images == sum(int(rows.sum()) for rows in mine)
    presence = torch.cat([each.presence[rows] for each, rows in zip(located, mine, strict=True)])
    centre = torch.cat([each.centre[rows] for each, rows in zip(located, mine, strict=True)])
    expected = (presence[..., None] * centre).sum(0) / presence.sum(0)[:, None]
    for place in card.places:
        np.testing.assert_allclose((place.x, place.y), expected[place.primitive], atol=1e-3)
    assert [each["primitive"] for each in card.drawing()["faces"]] == [place.primitive for place in card.places]


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_faces_on_a_card_do_not_cover_each_other(count: int) -> None:
    for spread in (0.0, 0.01, 1.0):
        places = arrange(spread * np.random.default_rng(count).standard_normal((count, 2)))
        assert (places >= FACE).all()
        assert (places <= 1 - FACE).all()
        apart = np.abs(places[:, None] - places[None]).max(-1) + np.eye(count)
        assert apart.min() > 2 * FACE
