"""The one request that Prometheus makes, and others."""

from __future__ import annotations

import pytest

from zlaunch.run.scrape import head_is_complete, response_to


def asked(request: bytes) -> tuple[int, bytes, bytes]:
    head, _, body = response_to(request, lambda: b"text\n", "a/b").partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), head, body


def test_the_page() -> None:
    status, head, body = asked(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (status, body) == (200, b"text\n")
    assert b"Content-Type: a/b\r\n" in head and b"Content-Length: 5\r\n" in head
    assert asked(b"GET /metrics?name=x HTTP/1.0\r\n\r\n")[0] == 200
    assert asked(b"HEAD /metrics HTTP/1.1\r\n\r\n")[1:] == (head, b"")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", 404),
        (b"GET /metrics/ HTTP/1.1", 404),
        (b"GET /metrics/../metrics HTTP/1.1", 404),
        (b"POST /metrics HTTP/1.1", 405),
        (b"DELETE / HTTP/1.1", 405),
        (b"GET /metrics", 400),
        (b"GET /metrics HTTP/2.0", 400),
        (b"GET  /metrics HTTP/1.1", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"", 400),
    ],
)
def test_anything_else(request_line: bytes, status: int) -> None:
    assert asked(request_line + b"\r\n\r\n")[0] == status


def test_where_a_head_ends() -> None:
    assert head_is_complete(b"GET / HTTP/1.1\r\nA: b\r\n\r\n")
    assert head_is_complete(b"GET / HTTP/1.1\n\n")
    assert not head_is_complete(b"GET / HTTP/1.1\r\nA: b\r\n")
