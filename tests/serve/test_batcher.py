"""Images that are asked about together share a pass of the network; one that comes alone does not wait."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parse_dg.deploy.image_batches import LoadedImage
from parse_dg.deploy.predictor import Prediction, Predictor, load
from parse_dg.explain.logits import ModelAnswer
from parse_dg.serve import batcher as module
from parse_dg.serve.batcher import Batcher
from tests.serve.conftest import Running, error_of, png, running, squares

IMAGES = [png(seed) for seed in range(24)]


class Gate:
    """Holds the model until it is opened, and counts its passes."""

    def __init__(self, predictor: Predictor, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.sizes: list[int] = []
        plain = predictor.predict_batch

        def held(batch: Sequence[LoadedImage], top: int = 3) -> list[Prediction]:
            self.sizes.append(len(batch))
            self.entered.set()
            assert self.open.wait(30)
            return plain(batch, top)

        monkeypatch.setattr(predictor, "predict_batch", held)


@contextmanager
def asking(service: Running, data: Sequence[bytes], path: str = "/predict?top=8") -> Iterator[list[Any]]:
    """Every image by a client of its own, all at once; their answers are there at the end."""
    answers: list[Any] = []

    def ask(each: bytes) -> Any:
        return service.client.post(path, content=each, headers={"content-type": "image/png"})

    with ThreadPoolExecutor(len(data)) as pool:
        futures = [pool.submit(ask, each) for each in data]
        yield answers
        answers.extend(future.result() for future in futures)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The images that have been decoded and wait for the model, or have been predicted."""
    asked: list[np.ndarray] = []
    plain = Batcher.predict

    async def predict(batcher: Batcher, pixels: np.ndarray, *, why: bool = False) -> ModelAnswer:
        asked.append(pixels)
        return await plain(batcher, pixels, why=why)

    monkeypatch.setattr(Batcher, "predict", predict)
    return asked


def wait_for(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_gathers_while_the_model_works_is_one_batch(erm_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(erm_run, max_batch=16) as service:
        asked = counted(monkeypatch)
        expected = service.predictor.predict(squares(IMAGES, service.predictor.image_size), top=8)
        gate = Gate(service.predictor, monkeypatch)
        with asking(service, IMAGES[:1]) as first:
            assert gate.entered.wait(20)
            with asking(service, IMAGES[1:]) as others:
                wait_for(lambda: len(asked) == len(IMAGES))
                gate.open.set()
        assert gate.sizes == [1, 16, 7]
        assert service.health()["batches"] == 3
        for answer, each in zip(first + others, expected, strict=True):
            shares = {entry["name"]: entry["probability"] for entry in answer.json()["top"]}
            assert answer.json()["predicted"] == each.predicted
            assert shares == pytest.approx(dict(each.top), abs=1e-5)


def test_relations_come_from_the_same_pass(parse_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(parse_run) as service:
        asked = counted(monkeypatch)
        network = service.predictor.model.parse_network()
        passes: list[int] = []
        network.register_forward_pre_hook(lambda _, inputs: passes.append(len(inputs[0])))
        gate = Gate(service.predictor, monkeypatch)
        with asking(service, IMAGES[:1]) as plain:
            assert gate.entered.wait(20)
            with asking(service, IMAGES[1:4], "/predict?explain=true&top=8") as explained:
                wait_for(lambda: len(asked) == 4)
                gate.open.set()
        assert passes == [1, 3]
        assert plain[0].json()["explanation"] is None
        for data, answer in zip(IMAGES[1:4], explained, strict=True):
            (expected,) = service.predictor.predict(squares([data], service.predictor.image_size), top=8)
            shares = {entry["name"]: entry["probability"] for entry in answer.json()["top"]}
            assert shares == pytest.approx(dict(expected.top), abs=1e-5)
            assert answer.json()["explanation"]["relations"]


def test_a_broken_image_does_not_harm_its_neighbours(parse_service: Running) -> None:
    broken = [IMAGES[0][:1000], b"nothing", b"\x89PNG\r\n\x1a\n"]
    mixed = [*IMAGES[:6], *broken, *IMAGES[6:12]]
    for _ in range(3):
        with asking(parse_service, mixed) as answers:
            pass
        codes = [answer.status_code for answer in answers]
        assert codes == [200] * 6 + [400, 415, 415] + [200] * 6
        for answer in answers[6:9]:
            assert "the image cannot be read" in error_of(answer)


def test_one_alone_does_not_wait_for_others(erm_run: Path) -> None:
    with running(erm_run) as service:
        for data in IMAGES[:3]:
            assert service.client.post("/predict", files={"image": data}).status_code == 200
        assert service.health()["batches"] == 3


def test_a_client_that_leaves_breaks_nothing(erm_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(erm_run) as service:
        gate = Gate(service.predictor, monkeypatch)
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"
        whole = head + b"Content-Length: %d\r\n\r\n" % len(IMAGES[0]) + IMAGES[0]
        assert service.send(whole, wait=0.2) == b""  # leaves while the model works
        assert service.send(whole[:-100], wait=0.2) == b""  # and one while it sends
        gate.open.set()
        answer = service.client.post("/predict", files={"image": IMAGES[1]})
        assert answer.status_code == 200
        wait_for(lambda: service.health()["queue"]["waiting"] == 0)


@pytest.fixture(scope="module")
def predictor(parse_run: Path) -> Predictor:
    return load(parse_run, "cpu")


@pytest.fixture(scope="module")
def pixels(predictor: Predictor) -> np.ndarray:
    return squares(IMAGES, predictor.image_size)


def test_what_fails_together_is_tried_alone(
    predictor: Predictor, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, sizes = module.predict_pixels, []

    def failing(predictor: Predictor, each: Sequence[np.ndarray], *, why: bool) -> Any:
        sizes.append(len(each))
        if any((one == pixels[2]).all() for one in each):
            raise RuntimeError("out of memory")
        return plain(predictor, each, why=why)

    monkeypatch.setattr(module, "predict_pixels", failing)

    async def ask() -> list[Any]:
        batcher = Batcher(predictor, 8)
        questions = [asyncio.create_task(batcher.predict(each)) for each in pixels[:4]]
        await asyncio.sleep(0)  # all are in the queue before it begins
        batcher.start()
        answers = await asyncio.gather(*questions, return_exceptions=True)
        await batcher.stop()
        return answers

    answers = asyncio.run(ask())
    assert sizes == [4, 1, 1, 1, 1]
    assert [isinstance(each, Prediction) for each in answers] == [True, True, False, True]
    assert str(answers[2]) == "out of memory"


def test_an_image_never_waits_while_the_model_is_free(predictor: Predictor, pixels: np.ndarray) -> None:
    async def ask() -> tuple[int, int]:
        batcher = Batcher(predictor, 8)
        batcher.start()
        await batcher.predict(pixels[0])
        alone = batcher.batches
        await asyncio.gather(*map(batcher.predict, pixels[1:5]))
        await batcher.stop()
        return alone, batcher.batches

    assert asyncio.run(ask()) == (1, 2)
