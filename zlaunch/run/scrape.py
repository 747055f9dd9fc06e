"""As much of HTTP as Prometheus, curl and a browser need: one request, one answer, and good-bye."""

from __future__ import annotations

from collections.abc import Callable

PATH = "/metrics"
LONGEST_HEAD = 16 << 10  # bytes


def head_is_complete(data: bytes) -> bool:
    """Whether the empty line that ends a request's head has come."""
    return b"\r\n\r\n" in data or b"\n\n" in data


def response_to(head: bytes, page: Callable[[], bytes], content_type: str) -> bytes:
    """Return the whole response to a request; `page` makes what is at PATH."""
    words = head.split(b"\n", 1)[0].rstrip(b"\r").split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return response("400 Bad Request", b"this is no request of HTTP/1\n")
    method, target = words[0], words[1].split(b"?", 1)[0]
    if method not in {b"GET", b"HEAD"}:
        allow = ("Allow: GET, HEAD",)
        return response("405 Method Not Allowed", b"only GET and HEAD\n", more=allow)
    if target != PATH.encode():
        return response("404 Not Found", f"there is {PATH}\n".encode(), bare=method == b"HEAD")
    return response("200 OK", page(), content_type, bare=method == b"HEAD")


def response(
    status: str,
    body: bytes,
    content_type: str = "text/plain; charset=utf-8",
    more: tuple[str, ...] = (),
    *,
    bare: bool = False,
) -> bytes:
    """Return a response; a `bare` one has the head alone."""
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *more,
    )
    head = "".join(f"{line}\r\n" for line in lines).encode("ascii")
    return head + b"\r\n" + (b"" if bare else body)
