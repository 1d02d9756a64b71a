"""What can be asked over HTTP: the addresses, their parameters, and errors as one line of JSON."""

import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from parse_dg._version import __version__
from parse_dg.deploy.predictor import TOP
from parse_dg.explain import viewer
from parse_dg.serve.guard import Guard, error_body
from parse_dg.serve.limits import RateLimiter, RefusedError
from parse_dg.serve.schemas import RESPONSES, UPLOAD, CaseData, HealthData, PredictionData, PrimitivesData
from parse_dg.serve.service import Service
from parse_dg.wording import first_line

PAGE = Path(__file__).parent / "page"
Top = Annotated[int, Query(ge=1, le=1_000_000, description="how many classes to name, the most probable first")]
Explain = Annotated[bool, Query(description="add the relations that the score is the sum of (models of parse)")]
ClassName = Annotated[
    str | None,
    Query(alias="class", max_length=200, description="explain it, and (by /case) the predicted one beside it"),
]
Primitive = Annotated[int, Query(ge=0, le=1_000_000, description="its number: 3 for p3")]
PrimitiveName = Annotated[str, Query(max_length=200, description="such as beak; none takes its name away")]


def build_app(service: Service, hosts: Collection[str] | None = None, token: str | None = None) -> Guard:
    """The application. `hosts` and `token` as `Guard` has them."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="parse-dg",
        version=__version__,
        description="An image classifier, and why it says what it says. Errors are answered as one line of JSON.",
        lifespan=lifespan,
        docs_url=None,  # those pages would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    _add_questions(app, service)
    for address, asset in load_assets().items():
        app.router.routes.append(Route(address, asset, methods=["GET"]))
    for kind in (RefusedError, HTTPException, RequestValidationError, ClientDisconnect, Exception):
        app.add_exception_handler(kind, _answer_error)
    return Guard(app, RateLimiter(service.limits.rate), hosts, token)


def _add_questions(app: FastAPI, service: Service) -> None:
    @app.post("/predict", response_model=PredictionData, responses=RESPONSES, openapi_extra=UPLOAD)
    async def predict(request: Request, top: Top = TOP, explain: Explain = False, of: ClassName = None) -> Response:
        """The class of an image, with its probability; on request, why."""
        _check_names(request, ("top", "explain", "class"))
        return _json(await service.predict(request, top=top, explain=explain, of=of))

    @app.post("/case", response_model=CaseData, responses=RESPONSES, openapi_extra=UPLOAD)
    async def case(request: Request, of: ClassName = None) -> Response:
        """All that the page shows of an image: classes, relations, places and heat maps of the primitives."""
        _check_names(request, ("class",))
        return _json(await service.case(request, of=of))

    @app.get("/primitives", response_model=PrimitivesData)
    async def primitives() -> Response:
        """What is known of the primitives: their names and faces, and classes as cards made of them."""
        return _json(service.primitives)

    @app.post("/names", response_model=PrimitivesData, responses=RESPONSES)
    async def names(request: Request, primitive: Primitive, name: PrimitiveName = "") -> Response:
        """Call a primitive by a name from now on, in every answer and in names.json beside the model."""
        _check_names(request, ("primitive", "name"))
        return _json(service.give_name(primitive, name))

    @app.get("/health", response_model=HealthData)
    async def health() -> Response:
        """That the service is well, which model it has and how busy it is."""
        return _json(service.health())


def _check_names(request: Request, valid: tuple[str, ...]) -> None:
    for name in request.query_params:
        if name not in valid:
            raise RefusedError(400, f"unknown parameter {name[:60]!r}: valid are {', '.join(valid)}")


def _json(data: Any) -> Response:
    body = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, media_type="application/json")


def load_assets() -> dict[str, Response]:
    """The page's files by their addresses, read once: nothing else can be fetched, whatever an address says."""
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    names = ("page.html", "page.css", "page.js", "icon.svg")
    files = {f"/{name}": (PAGE / name).read_text(encoding="utf-8") for name in names}
    files |= {"/viewer.css": viewer.read(*viewer.STYLES), "/viewer.js": viewer.read(*viewer.SCRIPTS)}
    again = {"cache-control": "no-cache"}
    sent = {name: Response(text, 200, again, kinds[name.partition(".")[2]]) for name, text in files.items()}
    return {"/": sent.pop("/page.html"), **sent}


async def _answer_error(request: Request, found: Exception) -> Response:
    """Every error is one line of JSON."""
    headers: Mapping[str, str] | None = None
    match found:
        case RefusedError():
            status, message, headers = found.status, str(found), found.headers
        case HTTPException(status_code=404):
            status = 404
            message = "there is nothing at this address: GET / is the page, POST /predict takes an image"
        case HTTPException():
            status, headers = found.status_code, found.headers
            message = f"{request.method[:20]} is not answered at this address"
        case RequestValidationError():
            first = found.errors()[0]
            status, message = 400, f"{first['loc'][-1]} is not valid: {first_line(first['msg'])}"
        case ClientDisconnect():
            status, message = 400, "the client is gone"  # for nobody
        case _:
            status, message = 500, "the service failed; its own messages say why"
    return Response(error_body(message), status, headers=headers, media_type="application/json")
