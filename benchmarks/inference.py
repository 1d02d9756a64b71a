"""Inference, whole network against whole network: compacted PARSE ÷ the same ResNet-50 with a linear head.

The compacted layer has the applications in use after training and no others. On a GPU both run in bf16 autocast,
call by call, and once more as CUDA graphs: a single image is bound by launches, which a graph does away with.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from benchmarks.report import Row, Side, Skipped
from benchmarks.setting import Setting, trained_lambda
from benchmarks.step import parse_config, random_images, resnet
from benchmarks.timing import Call, in_turns
from parse_dg.algorithms import BuildContext
from parse_dg.algorithms.erm import ErmConfig
from parse_dg.algorithms.parse import Parse
from parse_dg.model.backbones.backbone import Backbone
from parse_dg.model.vocabulary import Vocabulary

TITLE = "inference, whole networks: compacted PARSE ÷ linear head"


def rows(setting: Setting) -> Iterator[Row | Skipped]:
    """Graphs come last: a failed capture may leave the device unusable."""
    sizes, backbone = setting.sizes, resnet(setting)
    few, many = sizes.classes[0], sizes.classes[-1]
    heads = {classes: networks(setting, backbone, classes) for classes in (few, many)}
    cases = [(count, classes) for count in sizes.inference_images for classes in (few, many)]
    if not setting.on_gpu:
        cases.remove((sizes.inference_images[-1], many))  # seconds a call, and as much alike as the other
    for count, classes in cases:
        images = random_images(setting, count)
        calls = [forward(setting, network, images) for network in heads[classes]]
        yield _row(setting, f"batch {count}, C = {classes}", calls)
    if setting.on_gpu:
        yield from _graph_rows(setting, heads, cases)


def _graph_rows(
    setting: Setting, heads: dict[int, tuple[nn.Module, nn.Module]], cases: list[tuple[int, int]]
) -> Iterator[Row | Skipped]:
    for count, classes in cases:
        what = f"batch {count}, C = {classes}, CUDA graphs"
        images = random_images(setting, count)
        try:
            parse, linear = heads[classes]
            second = captured(forward(setting, linear, images))
            first = captured(forward(setting, parse, images))
        except RuntimeError as error:
            yield Skipped(what, f"not capturable: {_root(error)}")
            return
        yield _row(setting, what, [first, second])


def _row(setting: Setting, what: str, calls: list[Call]) -> Row:
    budget = setting.budget(rounds=60, seconds=1.5 if setting.on_gpu else 4)  # two hundredths are asked for
    parse, linear = in_turns(setting.device, budget, *calls)
    return Row(
        what=what,
        first=Side.timed("compacted PARSE", parse),
        second=Side.timed("linear head", linear),
        goal=setting.goal("at most", 1.02),
    )


def networks(setting: Setting, backbone: Backbone, classes: int) -> tuple[nn.Module, nn.Module]:
    """Compacted PARSE and the linear classifier, on one backbone, in evaluation mode."""
    sizes, config = setting.sizes, parse_config(setting.sizes.primitives)
    M = Vocabulary(sizes.primitives, config.vocabulary).size
    generator = torch.Generator().manual_seed(0)
    weight = trained_lambda(classes, M, sizes.union[classes], sizes.per_class, generator)
    columns = (weight > 0).any(0).nonzero().squeeze(1)
    parse = config.build(BuildContext(backbone, classes, columns=columns))
    assert isinstance(parse, Parse)
    parse.network.structure.composition.load_state_dict({"weight": weight[:, columns]}, strict=False)
    both = parse, ErmConfig().build(BuildContext(backbone, classes))
    for network in both:
        network.to(setting.device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    return both


def forward(setting: Setting, network: nn.Module, images: Tensor) -> Call:
    def call() -> None:
        with (
            torch.inference_mode(),
            torch.autocast(setting.device.type, dtype=torch.bfloat16, enabled=setting.on_gpu),
        ):
            network(images)

    return call


def captured(call: Call) -> Call:
    """The call as a CUDA graph, to be replayed while the call's input is kept."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def _root(error: BaseException) -> str:
    """The first line of what went wrong first: ending the capture fails as well."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error).strip().splitlines()[0]
