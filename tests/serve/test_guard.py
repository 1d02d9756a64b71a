"""What the service says to a browser, and to whom it does not speak."""

from base64 import b64encode
from pathlib import Path

import httpx
import pytest

from parse_dg.errors import InputError
from parse_dg.serve.app import load_assets
from parse_dg.serve.guard import POLICY, read_token
from tests.serve.conftest import Running, error_of, png, running

PAGE = ("/", "/page.css", "/page.js", "/icon.svg", "/viewer.css", "/viewer.js")


def test_the_page_and_its_files(parse_service: Running) -> None:
    kinds = {address: each.headers["content-type"] for address, each in load_assets().items()}
    assert set(kinds) == set(PAGE)
    for path in PAGE:
        answer = parse_service.client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kinds[path]
        assert answer.content
        assert b"https://" not in answer.content  # nothing from elsewhere
    page = parse_service.client.get("/").text
    for path in PAGE[1:]:
        assert f'"{path}"' in page
    assert "<script>" not in page  # the policy would not run it
    assert "style=" not in page


@pytest.mark.parametrize("path", ["/", "/page.js", "/health", "/openapi.json", "/nowhere"])
def test_every_answer_tells_the_browser_to_be_careful(parse_service: Running, path: str) -> None:
    headers = parse_service.client.get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


NOWHERE = """
    /../../etc/passwd /%2e%2e/%2e%2e/etc/passwd /page/page.js /page.js/ //page.js /page.js%00
    /viewer.js/../../explanation.py /static/page.js /app.py /PAGE.JS /page.html
"""


@pytest.mark.parametrize("path", NOWHERE.split())
def test_nothing_else_is_at_any_address(parse_service: Running, path: str) -> None:
    answer = parse_service.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b'{"error": "there is nothing at this address' in answer


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "GET", "HEAD"])
def test_other_methods_are_refused(parse_service: Running, method: str) -> None:
    answer = parse_service.client.request(method, "/predict")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    if method != "HEAD":
        assert "is not answered" in error_of(answer)


def post(service: Running, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.client.post("/predict", files={"image": png()}, headers=named)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://[", "", "https://"]
)
def test_pages_of_other_sites_may_not_ask(parse_service: Running, origin: str) -> None:
    answer = post(parse_service, origin=origin)
    assert answer.status_code == 403
    assert "another site" in error_of(answer)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_browser_that_says_so_itself_is_believed(parse_service: Running, site: str) -> None:
    assert post(parse_service, sec_fetch_site=site).status_code == 403


def test_its_own_page_may_ask(parse_service: Running) -> None:
    origin = f"http://127.0.0.1:{parse_service.port}"
    assert post(parse_service, origin=origin, sec_fetch_site="same-origin").status_code == 200
    assert post(parse_service, sec_fetch_site="none").status_code == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8000", "[::1]:9", "LOCALHOST:80", "127.9.9.9"])
def test_names_of_this_machine_are_answered(parse_service: Running, host: str) -> None:
    assert parse_service.client.get("/health", headers={"host": host}).status_code == 200


def test_other_names_are_not(parse_service: Running) -> None:
    names = "evil.example localhost.evil.example 10.0.0.1 [ 127.0.0.1.nip.io [::1].evil.com [::1]:8.x"
    for host in ("", *names.split()):
        for path in ("/", "/health"):
            answer = parse_service.client.get(path, headers={"host": host})
            assert answer.status_code == 421, host
            assert "not this machine" in error_of(answer)


def test_what_is_no_http_is_answered_in_one_line(parse_service: Running) -> None:
    for request in (b"\x16\x03\x01\x02\x00\x01", b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nx" + b"y" * 20_000):
        head, _, body = parse_service.send(request + b"\r\n\r\n").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert body.startswith(b'{"error": "this is no HTTP/1.1 request')


def test_where_a_token_is_asked_for_nothing_is_said_without_it(erm_run: Path) -> None:
    token = "correct-horse-battery"
    right = (f"Bearer {token}", f"bearer  {token}", "Basic " + b64encode(f"me:{token}".encode()).decode())
    other = "Basic " + b64encode(b"a:b").decode()
    wrong = ("", "Bearer", f"Bearer {token}x", f"Basic {token}", f"Digest {token}", other)
    with running(erm_run, token=token) as service:
        for header in right:
            assert post(service, authorization=header).status_code == 200
        for header in wrong:
            answers = [post(service, authorization=header)]
            answers += [service.client.get(path, headers={"authorization": header}) for path in ("/", "/health")]
            for answer in answers:
                assert answer.status_code == 401
                assert answer.headers["www-authenticate"] == 'Basic realm="parse-dg"'
                assert token not in error_of(answer)


@pytest.mark.parametrize("held", ["", "short", "two words of a token", "two-lines-of\na-long-token", "ä" * 20])
def test_a_token_that_is_none_is_refused(held: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(held)
    with pytest.raises(InputError, match="must be 16 to 1,000 ASCII characters"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_text("correct-horse-battery\n")
    assert read_token(tmp_path / "token") == "correct-horse-battery"
    with pytest.raises(InputError, match="cannot read the token in"):
        read_token(tmp_path / "nowhere")
