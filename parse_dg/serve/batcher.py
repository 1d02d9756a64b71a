"""Images that are asked about at the same time share one pass of the network.

One thread owns the model. While it is at work, images gather; when it is done, it takes what is there, up to a
batch. An image never waits for another while the model is free.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8

from parse_dg.deploy.predictor import ClassProbability, Prediction, Predictor
from parse_dg.explain.logits import ModelAnswer, read_any

SquarePixels = UInt8[np.ndarray, "S S 3"]


class QueuedImage(NamedTuple):
    """One image that waits for its answer."""

    pixels: SquarePixels
    why: bool
    answer: asyncio.Future[ModelAnswer]


class Batcher:
    """Gathers images and has them predicted."""

    def __init__(self, predictor: Predictor, max_batch: int) -> None:
        self.predictor, self.max_batch = predictor, max_batch
        self.images = self.batches = 0
        """What has been predicted so far."""
        self._jobs: asyncio.Queue[QueuedImage] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to predict; called where the event loop runs."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Let the batch that is at work end, and begin no other."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._thread.shutdown(wait=True)

    async def predict(self, pixels: SquarePixels, *, why: bool = False) -> ModelAnswer:
        """What the model says of one image; with the reasons that the method has, if asked `why`."""
        job = QueuedImage(pixels, why, asyncio.get_running_loop().create_future())
        self._jobs.put_nowait(job)
        return await job.answer

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            jobs = [job for job in await self._gather() if not job.answer.done()]  # done: nobody waits any more
            if not jobs:
                continue
            found = await loop.run_in_executor(self._thread, predict_jobs, self.predictor, jobs)
            self.images, self.batches = self.images + len(jobs), self.batches + 1
            for job, answer in zip(jobs, found, strict=True):
                if job.answer.done():
                    continue
                if isinstance(answer, Exception):
                    job.answer.set_exception(answer)
                else:
                    job.answer.set_result(answer)

    async def _gather(self) -> list[QueuedImage]:
        jobs = [await self._jobs.get()]
        while len(jobs) < self.max_batch and not self._jobs.empty():
            jobs.append(self._jobs.get_nowait())
        return jobs


def predict_jobs(predictor: Predictor, jobs: Sequence[QueuedImage]) -> list[ModelAnswer | Exception]:
    """What the model says of each, or why it failed; if all together fail, each is tried alone."""
    try:
        return [*predict_pixels(predictor, [j.pixels for j in jobs], why=any(j.why for j in jobs))]
    except Exception as error:  # whatever it is, it must reach those who wait, and spare those who come
        if len(jobs) == 1:
            return [error]
        return [answer for job in jobs for answer in predict_jobs(predictor, [job])]


def predict_pixels(predictor: Predictor, pixels: Sequence[SquarePixels], *, why: bool) -> Sequence[ModelAnswer]:
    """One pass of the network over some images."""
    return read_any(predictor, torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2), why=why)


def ranked(found: ModelAnswer) -> list[ClassProbability]:
    """Every class with its probability, the most probable first; of equal ones the first, as argmax has it."""
    if isinstance(found, Prediction):
        return [*found.top]
    shares = found.logits.float().softmax(0).tolist()
    return [ClassProbability(found.classes[c], shares[c]) for c in found.ranked]
