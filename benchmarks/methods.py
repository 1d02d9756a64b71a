"""What a step of every method costs: time and peak memory ÷ ERM's, in one run.

DANN and CDANN take turns from step to step, so that a lap of theirs is an even number of steps; ERM++ is measured
after its head start; averaging is not part of any of them. On a CPU the images are smaller: a step of a ResNet-50
at 224 pixels takes half a minute there.
"""

from collections.abc import Iterator

import torch

from benchmarks.report import Row, Side, Skipped
from benchmarks.setting import Setting
from benchmarks.step import STILL, resnet
from benchmarks.timing import Call, in_turns, peak_memory
from parse_dg.algorithms import ALGORITHMS, BuildContext
from parse_dg.algorithms.base import Minibatch
from parse_dg.algorithms.gvrt.text import Tokenizer
from parse_dg.data.augment.batches import AugmentConfig
from parse_dg.training.trainer import Trainer, TrainingConfig

TITLE = "a step of each method ÷ a step of ERM"
DOMAINS = 3
WORDS = Tokenizer(tuple(f"word{n}" for n in range(500)), 32)


def rows(setting: Setting) -> Iterator[Row | Skipped]:
    example = _example(setting)
    erm = _steps(setting, "erm", example)
    for name in ALGORITHMS:
        if name == "erm":
            continue
        method = _steps(setting, name, example)
        budget = setting.budget(seconds=1.0 if setting.on_gpu else 2.0, rounds=9)
        laps, plain = in_turns(setting.device, budget, method, erm)
        memory = [_memory(setting, each, example) for each in (name, "erm")]
        yield Row(what=f"time: {name}", first=Side.timed(name, laps), second=Side.timed("erm", plain))
        yield Row(what=f"peak memory: {name}", first=memory[0], second=memory[1], unit="MiB")


def _memory(setting: Setting, name: str, example: Minibatch) -> Side:
    """Without recorded work, whose memory is held from one step to the next."""
    steps = _steps(setting, name, example, recorded=False)
    steps()
    return Side(name=name, values=[peak_memory(steps, setting.device)])


def _example(setting: Setting) -> Minibatch:
    generator = torch.Generator().manual_seed(0)
    count = setting.sizes.images
    pixels = setting.sizes.pixels if setting.on_gpu else min(setting.sizes.pixels, 64)
    images = torch.randn(count, 3, pixels, pixels, generator=generator)
    labels = torch.arange(count) % setting.sizes.classes[0]
    captions = torch.randint(4, len(WORDS.words), (count, 16), generator=generator)
    captions[:, 0], captions[:, -1] = 1, 2  # begin, end
    parts = (images.contiguous(memory_format=torch.channels_last), labels, torch.arange(count) * DOMAINS // count)
    return Minibatch(*(part.to(setting.device) for part in (*parts, captions)))


def _steps(setting: Setting, name: str, example: Minibatch, *, recorded: bool = True) -> Call:
    """Two steps of a method, so that whoever takes turns has had both."""
    classes, generator = setting.sizes.classes[0], torch.Generator().manual_seed(0)
    context = BuildContext(resnet(setting), classes, generator=generator, domains=DOMAINS, vocabulary=WORDS)
    algorithm = ALGORITHMS[name]().without_beginning().build(context)
    trainer = Trainer(
        algorithm,
        iter(()),
        [],
        steps=1_000_000,
        training=TrainingConfig(cuda_graph=recorded),
        optimizer=STILL,
        augment=AugmentConfig(),
        generator=generator,
        device=setting.device,
    )
    trainer.algorithm.train()
    trainer.update(1, example)  # ERM++ leaves its head start

    def two() -> None:
        trainer.update(2, example)
        trainer.update(3, example)

    return two
