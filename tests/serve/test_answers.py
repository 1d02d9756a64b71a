"""The service answers what the library says, in the form that it describes."""

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from parse_dg import __version__
from parse_dg.data.framing import Picture
from parse_dg.deploy.predictor import load
from parse_dg.explain.explanation import read_image
from parse_dg.explain.logits import read_logits
from parse_dg.explain.viewer_data import case_of
from parse_dg.serve.limits import RefusedError, ServiceLimits
from parse_dg.serve.schemas import CaseData, HealthData, PredictionData, PrimitivesData
from parse_dg.serve.service import Service
from tests.conftest import FinishedRun
from tests.serve.conftest import Running, encoded, error_of, picture, png, running, squares

IMAGES = [png(seed, (40 + 17 * seed, 80)) for seed in range(5)]


@pytest.fixture(scope="module", params=["parse", "erm"])
def service(request: pytest.FixtureRequest, finished_run: FinishedRun) -> Iterator[Running]:
    with running(finished_run(request.param)) as each:
        yield each


def post(service: Running, data: bytes = IMAGES[0], **query: Any) -> httpx.Response:
    answer = service.client.post("/predict", content=data, headers={"content-type": "image/png"}, params=query)
    assert answer.status_code == 200, answer.text
    return answer


def classes_of(answer: dict[str, Any]) -> list[tuple[str, float]]:
    return [(each["name"], each["probability"]) for each in answer["top"]]


def test_it_is_what_the_predictor_says(service: Running) -> None:
    expected = service.predictor.predict(squares(IMAGES, service.predictor.image_size), top=8)
    for data, each in zip(IMAGES, expected, strict=True):
        answer = post(service, data, top=8).json()
        PredictionData.model_validate(answer)
        assert answer["predicted"] == each.predicted
        assert answer["probability"] == pytest.approx(each.probability, abs=1e-5)
        assert [name for name, _ in classes_of(answer)] == [name for name, _ in each.top]
        assert [share for _, share in classes_of(answer)] == pytest.approx([p for _, p in each.top], abs=1e-5)
        assert answer["method"] == service.predictor.model.spec.algorithm.name
        assert answer["model"].endswith("/model.safetensors")
        assert answer["probability_is"] == "softmax of the model's logits over all 8 classes"
        assert answer["explanation"] is None


def test_a_form_and_a_body_are_the_same_image(parse_service: Running) -> None:
    expected = post(parse_service).json()
    for kind in ("image/png", "image/whatever", "application/octet-stream", "IMAGE/PNG; x=y"):
        headers = {"content-type": kind}
        assert parse_service.client.post("/predict", content=IMAGES[0], headers=headers).json() == expected
    assert parse_service.client.post("/predict", files={"image": ("a.png", IMAGES[0])}).json() == expected
    pieces = (IMAGES[0][at : at + 100] for at in range(0, len(IMAGES[0]), 100))  # of unknown length
    answer = parse_service.client.post("/predict", content=pieces, headers={"content-type": "image/png"})
    assert answer.json() == expected


@pytest.mark.parametrize("kind", ["JPEG", "PPM", "BMP", "TIFF", "WEBP", "GIF"])
def test_every_format_is_read(erm_service: Running, kind: str) -> None:
    data = encoded(picture(1), kind)
    (expected,) = erm_service.predictor.predict(squares([data], erm_service.predictor.image_size))
    assert post(erm_service, data).json()["probability"] == pytest.approx(expected.probability, abs=1e-5)


@pytest.mark.parametrize(("top", "named"), [(3, 3), (1000, 8)])
def test_as_many_classes_are_named_as_were_asked_for(parse_service: Running, top: int, named: int) -> None:
    assert len(post(parse_service, top=top).json()["top"]) == named


@pytest.mark.parametrize(
    ("query", "fragment"),
    [
        ("top=0", "top"),
        ("top=x", "top"),
        ("top=1.5", "top"),
        ("explain=perhaps", "explain"),
        ("tpo=1", "unknown parameter 'tpo': valid are top, explain, class"),
        ("class=castle", "explain=true"),
        ("explain=true&class=nothing", "unknown class 'nothing'"),
    ],
)
def test_parameters_are_checked(parse_service: Running, query: str, fragment: str) -> None:
    if query == "class=castle":
        query = f"class={parse_service.predictor.classes[0]}"
    headers = {"content-type": "image/png"}
    answer = parse_service.client.post(f"/predict?{query}", content=IMAGES[0], headers=headers)
    assert answer.status_code == 400
    assert fragment in error_of(answer)


def test_an_explanation_is_what_the_library_says(parse_service: Running) -> None:
    predictor = parse_service.predictor
    for data in IMAGES[:3]:
        reading = read_image(predictor.model, squares([data], predictor.image_size)[0])
        for of in (None, predictor.classes[5]):
            query = {"explain": "true"} | ({} if of is None else {"class": of})
            answer = post(parse_service, data, **query).json()
            PredictionData.model_validate(answer)
            found, expected = answer["explanation"], reading.explain(of).to_dict()
            assert (found["predicted"], found["explained"]) == (expected["predicted"], expected["explained"])
            assert found["scores"] == pytest.approx(expected["scores"], abs=1e-5)
            weights = {each["name"]: each["weight"] for each in expected["relations"]}
            assert {each["name"]: each["weight"] for each in found["relations"]} == pytest.approx(weights)
            total = sum(each["contribution"] for each in found["relations"])
            assert total == pytest.approx(found["scores"][found["explained"]], abs=1e-6)


def test_only_parse_can_be_explained(erm_service: Running) -> None:
    answer = erm_service.client.post("/predict?explain=true", files={"image": IMAGES[0]})
    assert answer.status_code == 400
    assert error_of(answer) == "this model is one of erm: only those of parse have relations"


def case(service: Running, data: bytes, name: str = "a.png", **query: str) -> dict[str, Any]:
    answer = service.client.post("/case", files={"image": (name, data)}, params=query)
    assert answer.status_code == 200, answer.text
    CaseData.model_validate(answer.json())
    return dict(answer.json())


def test_a_case_is_what_the_viewer_is_given(parse_service: Running, erm_service: Running) -> None:
    size = parse_service.predictor.image_size
    data = png(3, (size, size))
    (pixels,) = squares([data], size)
    reading = read_image(parse_service.predictor.model, pixels)
    assert_near(case(parse_service, data), case_of(reading, Picture(pixels), title="a.png"))
    other = next(name for name in reversed(reading.classes) if name != reading.predicted)
    found = case(parse_service, data, **{"class": other})
    assert_near(found, case_of(reading, Picture(pixels), title="a.png", other=other))
    mapped = case_of(read_logits(erm_service.predictor, pixels), Picture(pixels), title="a.png", other=other)
    assert mapped["explanations"][other]["cells"]
    assert_near(case(erm_service, data, **{"class": other}), mapped)


def assert_near(found: Any, expected: Any) -> None:
    """The same data, but for the last digits of numbers; heat maps may differ by one step of 255."""
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key in found:
            if key == "values":
                maps = [
                    np.frombuffer(base64.b64decode(each[key]), np.uint8).astype(int) for each in (found, expected)
                ]
                assert np.abs(maps[0] - maps[1]).max() <= 1
            else:
                assert_near(found[key], expected[key])
    elif isinstance(found, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other)
    elif isinstance(found, float):
        assert found == pytest.approx(expected, abs=1e-4)
    else:
        assert found == expected


def test_a_case_shows_the_whole_image_with_its_shape(parse_service: Running) -> None:
    sizes = {}
    for side in (10, 64, 200, 900):
        photo = picture(1, (8, 8)).resize((side, side // 2))
        shown = case(parse_service, encoded(photo))["image"]
        sizes[side] = Image.open(io.BytesIO(base64.b64decode(shown.partition(",")[2]))).size
    assert sizes == {10: (10, 5), 64: (64, 32), 200: (200, 100), 900: (384, 192)}


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\secret\\a.png", "a.png"),
        ("/", "image"),
        ("ü ☂.png", "ü ☂.png"),
        ("<script>alert(1)</script>.png", "script>.png"),
        ("x" * 500, "x" * 120),
    ],
)
def test_the_title_is_the_file_name_without_folders(parse_service: Running, given: str, title: str) -> None:
    assert case(parse_service, IMAGES[0], given)["title"] == title


def test_a_primitive_is_given_a_name(parse_copy: Path) -> None:
    def give(**query: Any) -> httpx.Response:
        return service.client.post("/names", params=query)

    with running(parse_copy) as service:
        known = service.client.get("/primitives").json()
        PrimitivesData.model_validate(known)
        assert known["may_be_named"]
        assert (known["names"], len(known["faces"]), len(known["cards"])) == ({}, 16, 8)
        k = known["cards"][0]["faces"][0]["primitive"]
        assert give(primitive=k, name=" beak ").json()["names"] == {f"p{k}": "beak"}
        again = service.client.get("/primitives").json()
        assert any("beak" in each["words"] for each in again["cards"][0]["relations"])
        explained = post(service, explain="true").json()["explanation"]["relations"]
        assert all(("beak" in each["words"]) == (k in each["primitives"]) for each in explained)
        for query, words in (
            ({"primitive": 99, "name": "x"}, "unknown primitive p99: valid are p0 to p15"),
            ({"primitive": 0 if k else 1, "name": "Beak"}, "would both be called"),
            ({"primitive": "p3", "name": "x"}, "primitive is not valid"),
        ):
            answer = give(**query)
            assert answer.status_code == 400
            assert words in error_of(answer)
        assert load(parse_copy, "cpu").names == {k: "beak"}
        assert give(primitive=k).json()["names"] == {}
        (parse_copy / "names.json").write_text('{"primitives": "another", "names": {"p0": "wheel"}}')
        refused = error_of(give(primitive=k, name="beak"))
        assert refused == "names.json names the primitives of another model: begin anew with --clear"
    assert load(parse_copy, "cpu").names == {}


def test_names_are_not_given_from_elsewhere(parse_service: Running, erm_service: Running) -> None:
    service = Service(parse_service.predictor, "x", ServiceLimits())
    with pytest.raises(RefusedError, match="names are given on this machine"):
        service.give_name(0, "beak")
    known = erm_service.client.get("/primitives").json()
    assert known == {"names": {}, "faces": [], "words": "", "cards": [], "may_be_named": False}
    assert erm_service.client.post("/names?primitive=0&name=beak").status_code == 403


def test_health(service: Running) -> None:
    before = service.health()
    HealthData.model_validate(before)
    assert (before["status"], before["version"]) == ("ok", __version__)
    assert before["classes"] == list(service.predictor.classes)
    assert before["queue"]["waiting"] == 0
    post(service)
    after = service.health()
    assert after["images"] == before["images"] + 1
    assert after["batches"] == before["batches"] + 1
    assert after["uptime_seconds"] >= before["uptime_seconds"] >= 0


def test_the_description_has_schemas_of_questions_and_answers(parse_service: Running) -> None:
    found = parse_service.client.get("/openapi.json").json()
    assert found["openapi"].startswith("3.")
    assert set(found["paths"]) == {"/predict", "/case", "/primitives", "/names", "/health"}
    predict = found["paths"]["/predict"]["post"]
    assert {each["name"] for each in predict["parameters"]} == {"top", "explain", "class"}
    assert set(predict["requestBody"]["content"]) == {"multipart/form-data", "image/*", "application/octet-stream"}
    assert {"200", "400", "403", "408", "413", "415", "429", "503"} <= set(predict["responses"])
    assert "422" not in predict["responses"]  # no answer has that status
    schema = predict["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    assert schema == "#/components/schemas/PredictionData"
    assert found["components"]["schemas"]["ErrorData"]["properties"]["error"]["examples"]


def test_the_name_of_a_model_does_not_say_where_it_is(parse_service: Running, parse_run: Path) -> None:
    said = parse_service.client.get("/health").text + post(parse_service).text
    assert str(parse_run.parent) not in said
    assert parse_service.health()["model"] == f"{parse_run.name}/model.safetensors"
