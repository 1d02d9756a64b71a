"""`parse-dg serve`: a model behind HTTP, with a page to drop an image on."""

import importlib.util
import sys
from argparse import Namespace
from math import ceil

from parse_dg.cli.options import Commands, Console, add_command, opened, say
from parse_dg.config import require
from parse_dg.errors import InputError
from parse_dg.serve.limits import MEBIBYTE, ServiceLimits
from parse_dg.wording import printable

NEEDED = ("fastapi", "uvicorn", "python_multipart")
WARNING = "other machines can reach this service, and there is no authentication: whoever reaches it may ask"
RATE = 20.0
"""Uploads a second and client, unless something else is asked for, where other machines can reach the service."""


def serve(options: Namespace, console: Console) -> None:
    """Serve a trained model on this machine: a page where one drops an image and sees the
    prediction and, with a model of PARSE, the relations and heat maps behind it; and for programs

      POST /predict   an image file as the body, or as the form's field `image`; answers JSON
                      (?top=K, ?explain=true, ?explain=true&class=NAME)
      GET /primitives the names and faces of the primitives; POST /names gives one a name, as the page does
      GET /health     whether it is well, which model it has, how busy it is
      GET /openapi.json   the description of all this

    Images that are asked about at the same time are predicted together. Only this machine can reach it, unless
    --host says otherwise; there is no authentication, unless --token-file asks for it. Ctrl-C or SIGTERM: what
    was begun is finished.

    For example:
      parse-dg serve runs/blueprints/parse/sketch/seed0
      parse-dg serve RUN --model RUN/compact.safetensors --port 0
      curl -F image=@drawing.png 'http://127.0.0.1:8000/predict?top=1'
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"this needs {' and '.join(missing)}: pip install 'parse-dg[serve]'")
    from parse_dg.cli.show.display import progress_display
    from parse_dg.explain.faces import faces_of
    from parse_dg.serve.guard import read_token
    from parse_dg.serve.server import address_of, bind, bound_to_this_machine, build_server, model_name, run

    token = None if options.token_file is None else read_token(options.token_file)
    held = bind(options.host, options.port)
    with held:
        limits = _limits(options, shared=not bound_to_this_machine(held))
        path = options.model or options.run
        with progress_display() as progress:
            asked = opened(options, progress)
            predictor, faces = asked.predictor, faces_of(asked)
        if token is None and not bound_to_this_machine(held):
            print(f"parse-dg: warning: {WARNING}", file=sys.stderr)

        def ready() -> None:
            # A script that started this waits for the line: it must not stay in a buffer.
            say(console, f"serving {printable(model_name(path))} at {address_of(held)} (Ctrl-C ends it)")
            sys.stdout.flush()

        folder = path if path.is_dir() else path.parent
        how = (held, limits, ready, options.host, token, faces, folder)
        run(build_server(predictor, model_name(path), *how), held)
        say(console, "stopped")


def _limits(options: Namespace, shared: bool) -> ServiceLimits:
    rate = options.rate if options.rate is not None else RATE if shared else 0.0
    require(0 < options.max_upload <= 1024, "--max-upload", options.max_upload, "more than 0 and at most 1024")
    return ServiceLimits(
        max_bytes=ceil(options.max_upload * MEBIBYTE),
        max_pixels=options.max_pixels,
        rate=rate,
        max_batch=options.max_batch,
        timeout=options.timeout,
        per_address=options.per_address,
    )


def add_commands(commands: Commands) -> None:
    """Add the command of this file."""
    words = "a page to drop an image on, and POST /predict, for a trained model"
    command = add_command(commands, "serve", serve, words)
    command.add_run()
    command.add("--host ADDRESS", "", "127.0.0.1")
    command.add("--port N", "0: a free one", 8000)
    words = "a file with a token that every request has to bring (Authorization: Bearer TOKEN, or as a password)"
    command.add("--token-file FILE", words)
    command.add_model()
    command.section = command.add_argument_group("limits")
    limits = ServiceLimits
    command.add("--max-upload MB", "of one upload, in MiB", limits.max_bytes / MEBIBYTE)
    command.add("--max-pixels N", f"of one image (default: {limits.max_pixels:,})", limits.max_pixels)
    here = f"0 where only this machine can reach it, else {RATE:g}"
    command.add("--rate R", f"uploads a second from one address, 0 for any number (default: {here})", type=float)
    command.add(
        "--timeout S",
        "seconds in which a request must have arrived, and in which an answer must be read on",
        limits.timeout,
    )
    words = "connections from one address at once; a proxy before the service counts as one"
    command.add("--per-address N", words, limits.per_address)
    command.add("--max-batch N", "images in one pass of the network", limits.max_batch)
