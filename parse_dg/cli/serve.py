"""`parse-dg serve`: a model behind HTTP, with a page to drop an image on."""

import argparse
import importlib.util
import sys
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from parse_dg.cli.options import Commands, add_model, opened
from parse_dg.config import require
from parse_dg.errors import InputError
from parse_dg.serve.limits import MEBIBYTE, ServiceLimits
from parse_dg.wording import printable

if TYPE_CHECKING:
    from rich.console import Console

NEEDED = ("fastapi", "uvicorn", "python_multipart")
WARNING = "other machines can reach this service, and there is no authentication: whoever reaches it may ask"
RATE = 20.0
"""Uploads a second and client, unless something else is asked for, where other machines can reach the service."""


def serve(options: argparse.Namespace, console: "Console") -> None:
    """`parse-dg serve`."""
    _require_packages()
    from parse_dg.serve.server import address_of, bind, bound_to_this_machine, build_server, model_name, run

    asked = opened(options)
    held = bind(options.host, options.port)
    with held:
        limits = _limits(options, shared=not bound_to_this_machine(held))
        path = options.model or options.run
        predictor = asked.predictor
        if not bound_to_this_machine(held):
            print(f"parse-dg: warning: {WARNING}", file=sys.stderr)

        def ready() -> None:
            # A script that started this waits for the line: it must not stay in a buffer.
            said = f"serving {printable(model_name(path))} at {address_of(held)} (Ctrl-C ends it)"
            console.print(said, markup=False, soft_wrap=True)
            sys.stdout.flush()

        run(build_server(predictor, model_name(path), held, limits, ready, options.host), held)
        console.print("stopped")


def _require_packages() -> None:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"this needs {' and '.join(missing)}: pip install 'parse-dg[serve]'")


def _limits(options: argparse.Namespace, shared: bool) -> ServiceLimits:
    rate = options.rate if options.rate is not None else RATE if shared else 0.0
    require(0 < options.max_upload <= 1024, "--max-upload", options.max_upload, "more than 0 and at most 1024")
    return ServiceLimits(
        max_bytes=ceil(options.max_upload * MEBIBYTE),
        max_pixels=options.max_pixels,
        rate=rate,
        max_batch=options.max_batch,
        max_wait=options.max_wait / 1000,
        timeout=options.timeout,
    )


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    command = commands.add_parser(
        "serve",
        help="a page to drop an image on, and POST /predict, for a trained model",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Serve a trained model on this machine: a page where one drops an image and sees the\n"
        "prediction and, with a model of PARSE, the relations and heat maps behind it; and for programs\n\n"
        "  POST /predict   an image file as the body, or as the form's field `image`; answers JSON\n"
        "                  (?top=K, ?explain=true, ?explain=true&class=NAME)\n"
        "  GET /health     whether it is well, which model it has, how busy it is\n"
        "  GET /openapi.json   the description of all this\n\n"
        "Images that are asked about at the same time are predicted together. There is no authentication: only\n"
        "this machine can reach it, unless --host says otherwise. Ctrl-C or SIGTERM: what was begun is finished.",
        epilog="examples:\n"
        "  parse-dg serve runs/blueprints/parse/sketch/seed0\n"
        "  parse-dg serve RUN --model RUN/compact.safetensors --port 0\n"
        "  curl -F image=@drawing.png 'http://127.0.0.1:8000/predict?top=1'",
    )
    command.add_argument("run", type=Path, metavar="RUN", help="the run's folder, or a model file")
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1")
    command.add_argument("--port", type=int, default=8000, metavar="N", help="0: a free one (default: 8000)")
    add_model(command)
    _add_limits(command)
    command.set_defaults(command=serve)


def _add_limits(command: argparse.ArgumentParser) -> None:
    limits = command.add_argument_group("limits")
    limits.add_argument(
        "--max-upload",
        type=float,
        default=ServiceLimits.max_bytes / MEBIBYTE,
        metavar="MB",
        help=f"of one upload, in MiB (default: {ServiceLimits.max_bytes / MEBIBYTE:g})",
    )
    limits.add_argument(
        "--max-pixels",
        type=int,
        default=ServiceLimits.max_pixels,
        metavar="N",
        help=f"of one image (default: {ServiceLimits.max_pixels:,})",
    )
    limits.add_argument(
        "--rate",
        type=float,
        metavar="R",
        help="uploads a second from one address, 0 for any number (default: 0 where only this machine can reach\n"
        f"it, else {RATE:g})",
    )
    limits.add_argument(
        "--timeout",
        type=float,
        default=ServiceLimits.timeout,
        metavar="S",
        help=f"seconds in which a request must have arrived (default: {ServiceLimits.timeout:g})",
    )
    limits.add_argument(
        "--max-batch",
        type=int,
        default=ServiceLimits.max_batch,
        metavar="N",
        help=f"images in one pass of the network (default: {ServiceLimits.max_batch})",
    )
    limits.add_argument(
        "--max-wait",
        type=float,
        default=1000 * ServiceLimits.max_wait,
        metavar="MS",
        help="milliseconds that an image waits for others that are being decoded "
        f"(default: {1000 * ServiceLimits.max_wait:g})",
    )
