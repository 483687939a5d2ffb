"""The pages for people: a fixed list of files, read once when this is imported.

The chat page checks answers with the very script of verify.html, cut out of the published file, so
that there is one verifier in JavaScript and not two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flask import Blueprint, Response, abort, request

import verifier
from appliance.service.endpoint import PUBLIC, endpoint
from crypto.sm3 import sm3

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load and whom it may ask: this service alone, and nothing inside its text."""

HTML: Final = "text/html; charset=utf-8"
CSS: Final = "text/css; charset=utf-8"
SCRIPT: Final = "text/javascript; charset=utf-8"

SCRIPTS: Final = (
    *("answer", "api", "chat", "dom", "evidence", "evidence_view", "failure", "head", "key"),
    *("language", "request", "save", "sse", "status", "status_rows", "strings", "text_flow"),
    *("trust", "turn", "verify_worker", "verifying"),
)
STYLES: Final = ("chat", "common", "status")

_FOLDER: Final = Path(__file__).resolve().parents[2] / "pages"
_VERIFIER: Final = Path(verifier.__file__).resolve().parent / "verify.html"
_META: Final = re.compile(
    r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', re.ASCII
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file as it is served.

    Attributes:
        content: its bytes.
        content_type: media type and charset.
        policy: its Content-Security-Policy.
        digest: SM3 of the content, in hexadecimal.
    """

    content: bytes
    content_type: str
    policy: str
    digest: str


def _file(content: bytes, content_type: str, policy: str = PAGE_POLICY) -> PageFile:
    return PageFile(content, content_type, policy, sm3(content).hex())


def verifier_script(page: bytes) -> bytes:
    """Return the one script inside the bytes of verify.html.

    Raises:
        ValueError: there is none, or more than one.
    """
    before, opening, rest = page.partition(b"<script>")
    script, closing, after = rest.partition(b"</script>")
    if not (opening and closing) or b"<script" in before + after:
        raise ValueError("verify.html does not have exactly one script")
    return script


def verifier_policy(page: bytes) -> str:
    """Return the policy that verify.html states itself, with what only a header can say added.

    Raises:
        ValueError: it states none.
    """
    found = _META.search(page.decode("utf-8"))
    if found is None:
        raise ValueError("verify.html states no policy")
    return f"{found[1]}; frame-ancestors 'none'"


def _read() -> dict[str, PageFile]:
    """Return every file by the path it is served under."""
    page = _VERIFIER.read_bytes()
    files = {
        "/": _file((_FOLDER / "chat.html").read_bytes(), HTML),
        "/status": _file((_FOLDER / "status.html").read_bytes(), HTML),
        "/verify.html": _file(page, HTML, verifier_policy(page)),
        "/assets/verifier.js": _file(verifier_script(page), SCRIPT),
    }
    names = {f"{name}.js": SCRIPT for name in SCRIPTS} | {f"{name}.css": CSS for name in STYLES}
    for name, content_type in names.items():
        files[f"/assets/{name}"] = _file((_FOLDER / name).read_bytes(), content_type)
    return files


FILES: Final = _read()
"""The files by path; nothing else is ever served as one."""

BLUEPRINT = Blueprint("pages", __name__)


@BLUEPRINT.get("/")
@BLUEPRINT.get("/status")
@BLUEPRINT.get("/verify.html")
@BLUEPRINT.get("/assets/<name>")
@endpoint(PUBLIC)
def page(name: str = "") -> Response:
    """Serve a file of the list; a browser that has it already is told so."""
    found = FILES.get(f"/assets/{name}" if name else request.path)
    if found is None:
        abort(404)
    response = Response(found.content, content_type=found.content_type)
    response.headers["Content-Security-Policy"] = found.policy
    response.headers["Cache-Control"] = "no-cache"
    response.set_etag(found.digest)
    response.make_conditional(request)
    return response
