"""Requests that are broken or meant to harm, whatever image they bring."""

from collections.abc import Iterator

import numpy as np

from tests.serve.attacks import BOUNDARY, END, GOOD, MAX_UPLOAD, Attack, form, head, part, post

PATHS = r"""
    /../../../../etc/passwd /..%2f..%2f..%2fetc/passwd /%2e%2e/%2e%2e/etc/passwd //etc/passwd /etc/passwd
    /page.js/../../app.py /viewer.js%00.html /....//....//etc/passwd /%5c..%5c..%5cwindows /..\..\x
    /static/../page.js /page/page.js /.git/config /.env /proc/self/environ /docs /redoc /openapi.json/../x
    /predict/ /predict/../health /health/ /admin /%ff%fe /% /%zz /;/x /index.html /favicon.ico /metrics
    http://localhost/etc/passwd file:///etc/passwd http://evil.example/ * /model.safetensors
    /run/model.safetensors /config.json
"""
FILES = r"../../../etc/passwd /etc/passwd ..\..\x C:\x |id $(id) `id` %2e%2e%2fx ~/x"
QUERIES = """
    top=0 top=-1 top=x top=1.5 top=99999999999 top= top=nan top=%00 explain=2 explain= explain=yes%20please
    class=x explain=true&class= explain=true&class=../x explain=1&class=%00 file=/etc/passwd case=1 %ff=1
    top=1&top=x __proto__=1 url=http://169.254.169.254/ model=/etc/passwd
"""


def types() -> Iterator[Attack]:
    kinds = [
        None, "", "text/plain", "text/html", "application/json", "application/x-www-form-urlencoded", "image", "/",
        "imagepng", "video/mp4", "application/octet-streams", "*/*", "multipart/mixed; boundary=b", "x" * 4000,
        "multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'b' * 71}",
        'multipart/form-data; boundary="', "multipart/form-data; border=b", "message/rfc822",
    ]  # fmt: skip
    for number, kind in enumerate(kinds):
        yield Attack(f"content type {number}", post(GOOD, kind=kind))


def forms() -> Iterator[Attack]:
    whole = part(GOOD) + END
    for step in range(1, 20):
        cut = len(whole) * step // 20
        yield Attack(f"form cut at {cut}", form(whole[:cut]))
    for cut in (3, 8, 10, 12, 30, 60, 70, 75, 80):
        yield Attack(f"form cut at {cut}", form(whole[:cut]))
    broken = {
        "another boundary": whole.replace(BOUNDARY.encode(), b"another"),
        "no part": END,
        "nothing": b"",
        "two parts": part(GOOD) * 2 + END,
        "a thousand parts": part(b"x") * 1000 + END,
        "another name": part(GOOD, name="file") + END,
        "no name": whole.replace(b' name="image";', b""),
        "a name with a null": part(GOOD, name="image\0") + END,
        "no disposition": whole.replace(b"Content-Disposition", b"Content-Position"),
        "base64": part(GOOD, more="Content-Transfer-Encoding: base64\r\n") + END,
        "a thousand headers": part(GOOD, more="x: y\r\n" * 1000) + END,
        "a long header": part(GOOD, more=f"x: {'y' * 50_000}\r\n") + END,
        "a long header name": part(GOOD, more=f"{'y' * 50_000}: x\r\n") + END,
        "a header without a colon": part(GOOD, more="xyz\r\n") + END,
        "a long file name": part(GOOD, file="a" * 50_000) + END,
        "newlines alone": whole[: len(part(b"")) - 2].replace(b"\r\n", b"\n") + GOOD + b"\n" + END,
        "no end of headers": whole.replace(b"\r\n\r\n", b"\r\n", 1),
        "a form in a form": part(part(GOOD) + END, more="Content-Type: multipart/mixed; boundary=b\r\n")[:-9],
        "an empty file": part(b"") + END,
    }
    for name, data in broken.items():
        yield Attack(f"form with {name}", form(data))
    for name in ("a\0.png", *FILES.split()):
        yield Attack(f"file called {name!r}", form(part(b"no image", file=name) + END, path="/case"))


def headers() -> Iterator[Attack]:
    long = "a" * 20_000
    lines = {
        "a long header": f"GET / HTTP/1.1\r\nHost: localhost\r\nx: {long}\r\n\r\n",
        "a long header name": f"GET / HTTP/1.1\r\nHost: localhost\r\n{long}: x\r\n\r\n",
        "a long address": f"GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a long query": f"POST /predict?top={long} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a long method": f"{long} / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "many headers": "GET / HTTP/1.1\r\nHost: localhost\r\n" + "x: y\r\n" * 5000 + "\r\n",
        "a null": "GET / HTTP/1.1\r\nHost: localhost\r\nx: \0\r\n\r\n",
        "no host": "GET / HTTP/1.1\r\n\r\n",
        "two hosts": "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        "two lengths": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        "a negative length": "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "a length in words": "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: ten\r\n\r\n",
        "a length in hex": "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0x10\r\n\r\n",
        "an unknown coding": "POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        "two codings": "POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "no version": "GET /\r\n\r\n",
        "version x": "GET / HTTP/x\r\nHost: localhost\r\n\r\n",
        "a space in a name": "GET / HTTP/1.1\r\nHost: localhost\r\nx y: z\r\n\r\n",
        "a space before the colon": "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        "no colon": "GET / HTTP/1.1\r\nHost: localhost\r\nxyz\r\n\r\n",
        "spaces": "GET  /  HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "mail": "HELO example.org\r\nMAIL FROM:<a@example.org>\r\n\r\n",
        "SSH": "SSH-2.0-client\r\n\r\n\r\n",
    }
    for name, text in lines.items():
        yield Attack(f"request with {name}", text.encode("latin-1"), closed=True)
    draw = np.random.default_rng(13)
    for number in range(12):
        yield Attack(f"bytes {number}", draw.bytes(40 + 400 * number) + b"\r\n\r\n", closed=True)
    hello = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"
    yield Attack("TLS", hello + draw.bytes(160) + b"\r\n\r\n", closed=True)
    yield Attack("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", closed=True)


def addresses() -> Iterator[Attack]:
    for path in (*PATHS.split(), "/a" * 500):
        for method in ("GET", "POST"):
            yield Attack(f"{method} {path[:40]}", head(path, method=method) + b"Content-Length: 0\r\n\r\n")
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "GET", "QUERY"):
        for path in ("/predict", "/case"):
            yield Attack(f"{method} {path}", head(path, method=method) + b"Content-Length: 0\r\n\r\n")
    for path in ("/", "/health", "/page.js", "/openapi.json"):
        yield Attack(f"POST {path}", post(GOOD, path))


def lengths() -> Iterator[Attack]:
    for length in (MAX_UPLOAD + 1, 10**8, 10**12, 10**18, 2**63, 2**64, 10**19):
        yield Attack(f"length of {length}", head() + b"Content-Length: %d\r\n\r\n" % length + GOOD)
        asked = head(expect="100-continue") + b"Content-Length: %d\r\n\r\n" % length
        yield Attack(f"length of {length}, asked first", asked)
    chunked = head() + b"Transfer-Encoding: chunked\r\n\r\n"
    one = b"8000\r\n" + bytes(0x8000) + b"\r\n"
    for count in (9, 20):
        yield Attack(f"{count} chunks", chunked + one * count + b"0\r\n\r\n")
        yield Attack(f"{count} chunks without an end", chunked + one * count)
    yield Attack("a million chunks", chunked + b"1\r\nx\r\n" * (MAX_UPLOAD + 1))
    yield Attack("form that is too long", form(part(bytes(MAX_UPLOAD)) + END))
    yield Attack("body that is too long", post(bytes(MAX_UPLOAD + 1)))
    yield Attack("body as long as it may be", post(bytes(MAX_UPLOAD)))
    for size in (b"xyz", b"-1", b"", b"1" * 30, b"5;" + b"e" * 30_000, b"0x5"):
        yield Attack(f"chunk of size {size[:8]!r}", chunked + size + b"\r\nhello\r\n0\r\n\r\n", closed=True)
    yield Attack("chunk longer than it says", chunked + b"2\r\nhello\r\n0\r\n\r\n", closed=True)


def slow() -> Iterator[Attack]:
    """Senders that never come to an end. They are cut off, whatever they send meanwhile."""
    begun = {
        "silence": b"",
        "a method": b"PO",
        "a request line": b"POST /predict HTTP/1.1\r\n",
        "headers": head(),
        "a body": head() + b"Content-Length: 5000\r\n\r\n",
        "half a body": head() + b"Content-Length: 5000\r\n\r\n" + GOOD[:2000],
        "a chunk": head() + b"Transfer-Encoding: chunked\r\n\r\nff\r\n",
    }
    for name, request in begun.items():
        yield Attack(f"{name}, then nothing", request, closed=name == "silence")
        yield Attack(f"{name}, then drops", request, pause=0.1, drip=b"a" * 200, closed=True)


def strangers() -> Iterator[Attack]:
    origins = "http://evil.example null https://localhost.evil.example http://127.0.0.1:1 file:// http://["
    for origin in origins.split():
        for path in ("/predict", "/case"):
            yield Attack(f"{path} from {origin}", post(GOOD, path, origin=origin))
    for site in ("cross-site", "same-site", "?"):
        yield Attack(f"from a page that is {site}", post(GOOD, sec_fetch_site=site))
    hosts = "evil.example 10.0.0.1 localhost.evil.example 127.0.0.1.nip.io 0 [ @localhost a:b:c"
    for host in (*hosts.split(), "x" * 300):
        yield Attack(f"for {host[:30]}", post(GOOD).replace(b"Host: localhost", f"Host: {host}".encode()))
        yield Attack(f"page for {host[:30]}", f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


def queries() -> Iterator[Attack]:
    long = [f"explain=true&class={'c' * length}" for length in (201, 300, 5000)]
    for query in (*QUERIES.split(), *long):
        yield Attack(f"?{query}", post(GOOD, f"/predict?{query}"))
    for query in ("top=1", "explain=true", "class=x", "title=x"):
        yield Attack(f"case?{query}", post(GOOD, f"/case?{query}"))
