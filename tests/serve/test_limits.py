"""Every limit: what is within it is answered, what is beyond it is refused in one line, early."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from parse_dg.data.images import MAX_PIXELS
from parse_dg.errors import InputError
from parse_dg.serve.body import read_form
from parse_dg.serve.limits import CLIENTS, Budget, DecodingRoom, RateLimiter, RefusedError, ServiceLimits, client_of
from tests.serve.conftest import Running, encoded, error_of, picture, png, read_all, running
from tests.serve.test_batcher import Gate, asking, wait_for

KILOBYTE = 1024
PNG = {"content-type": "image/png"}
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\n"


@pytest.fixture(scope="module")
def strict(erm_run: Path) -> Iterator[Running]:
    """A service with limits that are soon reached."""
    with running(erm_run, max_bytes=64 * KILOBYTE, max_pixels=10_000, timeout=0.6, connections=6) as service:
        yield service


def test_uploads_as_long_as_allowed_are_taken(strict: Running) -> None:
    data = png() + bytes(64 * KILOBYTE - len(png()))  # what follows an image means nothing
    assert len(data) == 64 * KILOBYTE
    assert strict.client.post("/predict", content=data, headers=PNG).status_code == 200
    answer = strict.client.post("/predict", content=data + b"x", headers=PNG)
    assert answer.status_code == 413
    assert error_of(answer) == "the upload is too long: at most 65,536 bytes are taken"


def test_all_uploads_together_are_bounded() -> None:
    budget = Budget(10, "too much")
    with budget.holding() as one, budget.holding() as other:
        one(6)
        other(4)
        with pytest.raises(RefusedError, match="too much: try again") as refused:
            one(1)
        assert (refused.value.status, refused.value.headers) == (503, {"retry-after": "1"})
        assert budget.used == 10
    assert budget.used == 0


def test_images_with_as_many_pixels_as_allowed_are_decoded(strict: Running) -> None:
    for size, status in (((100, 100), 200), ((10_000, 1), 200), ((10_001, 1), 413), ((101, 100), 413)):
        data = encoded(picture(1, (1, 1)).resize(size))
        answer = strict.client.post("/predict", content=data, headers=PNG)
        assert answer.status_code == status
        if status == 413:
            assert error_of(answer).endswith(f"it claims {size[0]} × {size[1]} pixels, at most 10,000 are decoded")


def test_a_jpeg_of_endless_scans_is_refused(strict: Running) -> None:
    data = encoded(picture(), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    answer = strict.client.post("/predict", content=data[:-2] + data[last : last + 20] * 99, headers=PNG)
    assert answer.status_code == 400
    assert "scans" in error_of(answer)
    assert strict.client.post("/predict", content=data, headers=PNG).status_code == 200


BODY, CHUNK = HEAD + b"Content-Length: 100\r\n\r\n", HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"


@pytest.mark.parametrize(
    "begun", [b"POST /pre", HEAD, BODY, CHUNK], ids=["request line", "headers", "body", "chunk"]
)
def test_a_slow_sender_is_cut_off(strict: Running, begun: bytes) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=20) as connection:
        started = time.monotonic()
        connection.sendall(begun)
        answer = read_all(connection)  # until it is closed
        assert 0.5 < time.monotonic() - started < 15
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"did not arrive within 0.6 s" in answer


def test_there_is_a_limited_number_of_connections(erm_run: Path) -> None:
    with running(erm_run, connections=6) as service:
        others = [socket.create_connection(("127.0.0.1", service.port), timeout=20) for _ in range(6)]
        time.sleep(0.2)
        answer = service.send(b"")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b'"error": "too many connections' in answer
        assert b"retry-after: 1" in answer
        for each in others:
            each.close()
        wait_for(lambda: not service.send(b"", wait=0.1))
        assert service.health()["status"] == "ok"


def test_more_images_than_can_wait_are_told_to_come_back(erm_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(erm_run, max_batch=1) as service:
        limit = service.health()["queue"]["limit"]
        gate = Gate(service.predictor, monkeypatch)
        with asking(service, [png()] * limit) as answers:
            wait_for(lambda: service.health()["queue"]["waiting"] == limit)
            refused = service.client.post("/predict", files={"image": png()})
            gate.open.set()
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert error_of(refused) == "too many images are waiting: try again in a moment"
        assert {answer.status_code for answer in answers} == {200}
        assert service.client.post("/predict", files={"image": png()}).status_code == 200


def test_a_client_may_not_ask_too_often(erm_run: Path) -> None:
    with running(erm_run, rate=0.5) as service:
        codes = [service.client.post("/predict", files={"image": png()}).status_code for _ in range(4)]
        assert codes == [200, 429, 429, 429]
        answer = service.client.post("/case", files={"image": png()})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) in (1, 2)
        assert "at most 0.5 uploads a second" in error_of(answer)
        assert service.health()["images"] == 1  # the page and the health are not limited


def test_tokens_come_back_with_time() -> None:
    now = 0.0
    limiter = RateLimiter(2, lambda: now)
    for moment, allowed in ((0, True), (0, True), (0, False), (0.4, False), (0.5, True), (0.5, False), (9, True)):
        now = moment
        if allowed:
            limiter.take("1.2.3.4")
        else:
            with pytest.raises(RefusedError) as refused:
                limiter.take("1.2.3.4")
            assert refused.value.headers == {"retry-after": "1"}
    limiter.take("1.2.3.5")  # another client


def test_the_table_of_clients_is_bounded() -> None:
    limiter = RateLimiter(1, lambda: 0.0)
    for number in range(2 * CLIENTS):
        limiter.take(f"10.0.{number // 256}.{number % 256}")
    assert len(limiter) == CLIENTS


def test_what_counts_as_a_client() -> None:
    clients = {"1.2.3.4": "1.2.3.4", "::ffff:1.2.3.4": "1.2.3.4", "fe80::1%eth0": "fe80::/64", "": ""}
    clients["2001:db8:1:2:3:4:5:6"] = "2001:db8:1:2::/64"
    assert {address: client_of(address) for address in clients} == clients


def test_limits_are_checked() -> None:
    wrong = {"max_bytes": 0, "max_pixels": MAX_PIXELS + 1, "rate": float("nan"), "timeout": 0.0}
    for name, value in wrong.items():
        with pytest.raises(InputError, match=name):
            ServiceLimits(**{name: value})  # type: ignore[arg-type]
    assert ServiceLimits().max_pixels == MAX_PIXELS  # what a data set may have can be asked about


def test_so_many_pixels_are_decoded_at_once() -> None:
    room, together = DecodingRoom(10), []

    def decode(pixels: int) -> int:
        with room.holding() as claim:
            claim(pixels)
            together.append(pixels)
            time.sleep(0.02)
            most = sum(together)
            together.remove(pixels)
        return most

    with ThreadPoolExecutor(6) as pool:
        most = list(pool.map(decode, (6, 6, 4, 25, 3, 6)))
    assert max(total for total in most if total < 25) <= 10
    assert most[3] == 25  # larger than there is room for: alone


# --- forms ----------------------------------------------------------------------------------------

PART = b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\nDATA\r\n'
END = b"--b--\r\n"


def test_the_only_part_of_a_form_is_the_image() -> None:
    assert read_form(PART + END, b"b") == ("a.png", b"DATA")
    assert read_form(PART + END + b"whatever follows", b"b") == ("a.png", b"DATA")
    binary = bytes(range(256)) * 9 + b"\r\n--c\r\n-- b\r\n"
    assert read_form(PART.replace(b"DATA", binary) + END, b"b").data == binary


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (PART * 2 + END, "more than one part"),
        (END, "damaged|empty"),
        (PART, "cut short"),
        (PART[:-9], "cut short"),
        (PART[:20], "cut short"),
        (b"", "cut short"),
        (PART.replace(b"image", b"file") + END, "not called image"),
        (PART.replace(b"form-data", b"attachment") + END, "not called image"),
        (PART.replace(b"Content-Disposition", b"X") + END, "not called image"),
        (PART.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n") + END, "encoded"),
        (PART.replace(b"\r\n\r\n", b"\r\nx: y" * 9 + b"\r\n\r\n") + END, "damaged|more than 8 headers"),
        (PART.replace(b"a.png", b"a" * 5000) + END, "damaged|more than 4,096 bytes"),
        (PART.replace(b"--b", b"--c") + END, "damaged"),
        (PART.replace(b"\r\n", b"\n") + END, "damaged|cut short"),
    ],
    ids=range(14),
)
def test_other_forms_are_refused(form: bytes, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as refused:
        read_form(form, b"b")
    assert refused.value.status == 400
