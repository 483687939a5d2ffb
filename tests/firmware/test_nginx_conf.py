"""The files of nginx: nginx accepts them, and every statement that is dropped is missed."""

from __future__ import annotations

import json
import re

import pytest

from tests.firmware.front import VARIANTS, Front
from tests.firmware.tools import statements, text_of, without

# By what they are for. What is not here nginx itself misses.
REQUIRED = {
    "the process": "user www-data|worker_processes 2|worker_rlimit_nofile 4096|"
    "pid /run/nginx/nginx.pid|error_log /var/log/nginx/error.log warn|worker_connections 1024",
    "says nothing about itself": "server_tokens off|etag off|autoindex off|"
    "default_type application/octet-stream",
    "log": "access_log /var/log/nginx/access.log windhover",
    "time": "client_header_timeout 5s|client_body_timeout 5s|send_timeout 30s|"
    "keepalive_timeout 60s|keepalive_requests 1000|reset_timedout_connection on|"
    "lingering_timeout 2s|lingering_time 5s",
    "size": "client_max_body_size 1m|client_body_buffer_size 1m|client_header_buffer_size 1k|"
    "large_client_header_buffers 4 8k",
    "number": "limit_conn connections 64|limit_conn_status 429|"
    "limit_req zone=requests burst=40 nodelay|limit_req_status 429",
    "socket": "server unix:/run/windhover/http.sock max_fails=0|keepalive 16|"
    "listen 443 ssl http2 backlog=512|listen [::]:443 ssl http2 backlog=512|server_name _",
    "TLS": "ssl_protocols TLSv1.3|ssl_session_cache off|ssl_session_tickets off|"
    "ssl_early_data off|ssl_buffer_size 4k|ssl_ecdh_curve X25519:secp384r1:prime256v1|"
    "ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"
    "TLS_AES_128_GCM_SHA256|ssl_certificate /etc/nginx/windhover/server.crt|"
    "ssl_certificate_key /etc/nginx/windhover/server.key|"
    'add_header Strict-Transport-Security "max-age=31536000" always|'
    "include /etc/nginx/windhover/client-certificates.conf|"
    "include /etc/nginx/windhover/errors.conf",
    "headers": 'proxy_http_version 1.1|proxy_set_header Connection ""|'
    'proxy_set_header Host $http_host|proxy_set_header Forwarded ""|'
    'proxy_set_header X-Forwarded-For ""|proxy_set_header X-Forwarded-Host ""|'
    'proxy_set_header X-Forwarded-Proto ""|proxy_set_header X-Real-IP ""|'
    'proxy_set_header Proxy ""',
    "whole requests, answers as they come": "proxy_request_buffering on|proxy_buffering off|"
    "proxy_cache off|proxy_max_temp_file_size 0|proxy_connect_timeout 2s|proxy_send_timeout 10s|"
    "proxy_read_timeout 1860s|proxy_next_upstream off|proxy_ignore_client_abort off|"
    "proxy_intercept_errors off|proxy_pass http://windhover",
}

_SPACES = re.compile(r"\s+")


def said(text: str) -> list[str]:
    """Return the statements of a file, with one space between words."""
    bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    parts = re.split(r"[;{}]", bare)
    return [_SPACES.sub(" ", part).strip() for part in parts]


def missing(text: str) -> list[str]:
    """Return required statements that a file does not have."""
    wanted = "|".join(REQUIRED.values()).split("|")
    found = said(text)
    # the same words stand in `upstream` and around it
    twice = ["keepalive_timeout 60s"] if found.count("keepalive_timeout 60s") != 2 else []
    return [statement for statement in wanted if statement not in found] + twice


LINES = [line for line in statements("nginx/nginx.conf") if line.endswith(";")]


@pytest.mark.parametrize("variant", VARIANTS)
def test_nginx_accepts_it(front: Front, variant: str) -> None:
    front.configure(variant)
    assert front.checked() == []
    assert missing(text_of("nginx/nginx.conf")) == []


@pytest.mark.parametrize("line", LINES)
def test_a_statement_that_is_dropped_is_missed(front: Front, line: str) -> None:
    text = without("nginx/nginx.conf", line)
    front.configure(text=text)
    assert missing(text) or front.checked()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ssl_protocols TLSv1.3;", "ssl_protocols TLSv1.4;"),
        ("limit_conn connections 64;", "limit_conn others 64;"),
        ("http://windhover;", "http://windhoover;"),
        ("proxy_buffering off;", "proxy_bufering off;"),
    ],
)
def test_nginx_sees_what_it_does_not_know(front: Front, old: str, new: str) -> None:
    text = text_of("nginx/nginx.conf")
    assert text.count(old) == 1
    front.configure(text=text.replace(old, new))
    assert front.checked() != []


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_says_all_that_it_is(variant: str) -> None:
    found = set(said(text_of(f"nginx/windhover/client-certificates-{variant}.conf"))) - {""}
    header = "proxy_set_header X-Windhover-Client-"
    if variant == "none":
        assert found == {
            "ssl_verify_client off", f'{header}Certificate ""', f'{header}Verify ""'
        }  # fmt: skip
        return
    verify = {"optional": "optional", "required": "on"}[variant]
    assert found == {
        f"ssl_verify_client {verify}",
        "ssl_verify_depth 2",
        "ssl_client_certificate /etc/nginx/windhover/clients.crt",
        f"{header}Certificate $ssl_client_escaped_cert",
        f"{header}Verify $ssl_client_verify",
    }


ANSWERED = {
    "400": "bad_request", "404": "not_found", "405": "method_not_allowed",
    "408": "request_timeout", "411": "length_required", "413": "request_too_large",
    "414": "uri_too_long", "421": "misdirected_request", "429": "rate_limit_exceeded",
    "494": "headers_too_large", "495": "invalid_certificate", "496": "certificate_required",
    "497": "tls_required", "500": "proxy_error", "501": "not_implemented", "502": "not_ready",
    "503": "overloaded", "504": "deadline_exceeded",
}  # fmt: skip
# nginx's own numbers, and 408, which clients would repeat at once
INSTEAD = {"408": "400", "494": "431", "495": "403", "496": "403", "497": "400"}
LATER = {"429": "1", "502": "10", "503": "10"}
IN_ALL = [
    "internal", "default_type application/json", "add_header Cache-Control no-store always",
    "add_header X-Content-Type-Options nosniff always",
]  # fmt: skip


def error_problems(text: str) -> list[str]:
    """Return what is not as it has to be in errors.conf."""
    pages = {
        number: (status or number, place)
        for number, status, place in re.findall(
            r"^error_page (\d+)(?: =(\d+))? (/\S+);$", text, re.MULTILINE
        )
    }
    places = dict(re.findall(r"^location = (/\S+) \{\n(.*?)\n\}$", text, re.DOTALL | re.MULTILINE))
    wrong = sorted(ANSWERED.keys() ^ pages.keys())
    for number, code in ANSWERED.items():
        status, place = pages.get(number, ("", ""))
        lines = [line.strip().removesuffix(";") for line in places.get(place, "").splitlines()]
        later = [f"add_header Retry-After {LATER[number]} always"] if number in LATER else []
        # who waited for half an hour does not do it again by himself
        never = ["add_header X-Should-Retry false always"] if number == "504" else []
        if lines[:-1] != [*IN_ALL, *later, *never] or status != INSTEAD.get(number, number):
            wrong.append(number)
            continue
        answer = re.fullmatch(r"return (\d+) '(.*)'", lines[-1])
        error = json.loads(answer[2])["error"] if answer and answer[1] == status else {}
        if error.keys() != {"message", "type", "param", "code"} or error["code"] != code:
            wrong.append(f"{number}: {lines[-1]}")
    return wrong


def test_every_error_is_an_object_as_clients_expect_it() -> None:
    assert error_problems(text_of("nginx/windhover/errors.conf")) == []


def test_a_line_of_an_error_that_is_dropped_is_missed() -> None:
    lines = text_of("nginx/windhover/errors.conf").splitlines()
    checked = 0
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            rest = [*lines[:number], *lines[number + 1 :]]
            assert error_problems("\n".join(rest)) != [], f"line {number + 1}: {line}"
            checked += 1
    assert checked > 100
