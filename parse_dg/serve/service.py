"""A loaded model that is asked by many at once: uploads → decoded in threads → predicted in batches → answers."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from parse_dg._version import __version__
from parse_dg.data.framing import Picture
from parse_dg.data.parallel import default_workers
from parse_dg.deploy.names import change_names
from parse_dg.deploy.predictor import Predictor
from parse_dg.errors import InputError
from parse_dg.explain.classes import class_cards
from parse_dg.explain.explanation import Reading
from parse_dg.explain.faces import PrimitiveFaces, known_primitives
from parse_dg.explain.logits import ModelAnswer
from parse_dg.explain.viewer_data import case_of
from parse_dg.serve.batcher import Batcher, ranked
from parse_dg.serve.body import decode_upload, read_upload
from parse_dg.serve.limits import Budget, DecodingRoom, RefusedError, ServiceLimits, Turns
from parse_dg.wording import plural

T = TypeVar("T")


class Service:
    """Answers what can be asked of a model."""

    def __init__(
        self,
        predictor: Predictor,
        name: str,
        limits: ServiceLimits,
        faces: PrimitiveFaces | None = None,
        folder: Path | None = None,
    ) -> None:
        """`name` is what the model is called in answers; `faces` are those of its primitives, where they are known;
        `folder` is where names that are given to them are kept, None: nobody may give any.
        """
        self.predictor, self.name, self.limits, self.faces = predictor, name, limits, faces
        self.folder = folder if predictor.model.explains else None
        self.method = predictor.model.spec.algorithm.name
        self.started = time.monotonic()
        self.queue = Budget(max(64, 4 * limits.max_batch), "too many images are waiting")
        self.memory = Budget(16 * limits.max_bytes, "too many uploads are arriving")
        self.batcher = Batcher(predictor, limits.max_batch)
        cores = default_workers()
        self._threads = ThreadPoolExecutor(2 * cores, thread_name_prefix="decode")  # one client has half of them
        self._decoding = Turns(cores)
        self._room = DecodingRoom(2 * limits.max_pixels)  # two of the largest, at about 8 bytes a pixel
        self.primitives = self.know_primitives()

    def start(self) -> None:
        """Begin to answer; called where the event loop runs."""
        self.batcher.start()

    async def stop(self) -> None:
        """End the threads; what is asked later is never answered."""
        await self.batcher.stop()
        self._threads.shutdown(wait=True, cancel_futures=True)

    async def predict(self, request: Request, *, top: int, explain: bool, of: str | None) -> dict[str, Any]:
        """The answer of `POST /predict`."""
        self._check_class(of)
        if explain and not self.predictor.model.explains:
            raise RefusedError(400, f"this model is one of {self.method}: only those of parse have relations")
        if of is not None and not explain:
            raise RefusedError(400, "class says which class to explain: expected explain=true beside it")
        _, _, found = await self._ask(request, why=explain)
        classes = ranked(found)
        explanation = None
        if explain:
            assert isinstance(found, Reading)
            explanation = await self._in_thread(lambda: found.explain(of).to_dict())
        return {
            "predicted": classes[0].name,
            "probability": classes[0].probability,
            "top": [each._asdict() for each in classes[:top]],
            "probability_is": f"softmax of the model's logits over all {plural(len(classes), 'class')}",
            "model": self.name,
            "method": self.method,
            "explanation": explanation,
        }

    async def case(self, request: Request, *, of: str | None) -> dict[str, Any]:
        """The answer of `POST /case`: what the page's viewer shows."""
        self._check_class(of)
        name, picture, found = await self._ask(request, why=True, shown=True)
        assert picture is not None
        return await self._in_thread(lambda: case_of(found, picture, title=name or "image", other=of))

    def know_primitives(self) -> dict[str, Any]:
        """Gather the answer of `GET /primitives`."""
        model = self.predictor.model
        cards = class_cards(model, self.faces) if self.faces else ()
        self.primitives = {
            **known_primitives(model.names, self.faces),
            "cards": [card.drawing() for card in cards if card.places],
            "may_be_named": self.folder is not None,
        }
        return self.primitives

    def give_name(self, primitive: int, name: str) -> dict[str, Any]:
        """The answer of `POST /names`: from now on the primitive is called so everywhere; nothing: as before."""
        if self.folder is None:
            raise RefusedError(403, "names are given on this machine, or where a token is asked for: parse-dg name")
        model = self.predictor.model
        try:
            names = change_names(self.folder, model.parse_network(), model.names, [(primitive, name.strip())])
        except InputError as error:
            raise RefusedError(400, str(error).replace(f"{self.folder}/", "")) from error
        self.predictor.model = replace(model, names=names)
        return self.know_primitives()

    def health(self) -> dict[str, Any]:
        """The answer of `GET /health`."""
        return {
            "status": "ok",
            "model": self.name,
            "method": self.method,
            "classes": list(self.predictor.classes),
            "image_size": self.predictor.image_size,
            "fit": self.predictor.model.spec.fit,
            "max_bytes": self.limits.max_bytes,
            "max_pixels": self.limits.max_pixels,
            "version": __version__,
            "uptime_seconds": round(time.monotonic() - self.started, 3),
            "images": self.batcher.images,
            "batches": self.batcher.batches,
            "queue": {"waiting": self.queue.used, "limit": self.queue.limit},
        }

    def _check_class(self, name: str | None) -> None:
        if name is not None and name not in self.predictor.classes:
            raise RefusedError(400, f"unknown class {name[:60]!r}: GET /health lists the classes of the model")

    async def _ask(
        self, request: Request, *, why: bool, shown: bool = False
    ) -> tuple[str, Picture | None, ModelAnswer]:
        """The name of the uploaded file, the whole image where it is shown, and what the model says of it."""
        self.queue.check()  # before anything is read
        with self.queue.holding() as take_place:
            with self.memory.holding() as hold:
                upload = await read_upload(request, self.limits, hold)
                take_place(1)
                how = (upload.data, self.predictor.model.spec.framing, self.limits.max_pixels, self._room)
                address = request.client.host if request.client else ""
                async with self._decoding.turn(address):
                    decoded = await self._in_thread(partial(decode_upload, *how, shown=shown))
            return upload.name, decoded.picture, await self.batcher.predict(decoded.pixels, why=why)

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)
