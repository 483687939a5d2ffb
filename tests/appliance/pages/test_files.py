"""The files that the service serves to browsers, and the rules they are served under."""

from __future__ import annotations

import re

import pytest
from flask import Flask

from appliance.service.routes import pages
from crypto.sm3 import sm3
from tests.appliance.pages.code_case import FOLDER
from verifier import build_page

TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}


@pytest.fixture(scope="module")
def client():
    app = Flask(__name__)
    app.register_blueprint(pages.BLUEPRINT)
    return app.test_client()


def test_every_file_is_served_and_nothing_else():
    served = {path.removeprefix("/assets/") for path in pages.FILES if path.startswith("/assets/")}
    pages_of_folder = {name for name in TEXTS if name.endswith(".html")}
    assert served == TEXTS.keys() - pages_of_folder | {"verifier.js"}
    assert pages_of_folder == {"chat.html", "status.html"}


@pytest.mark.parametrize("path", pages.FILES)
def test_a_file_is_served_whole_with_its_digest(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.data == pages.FILES[path].content
    assert answer.headers["ETag"] == f'"{sm3(answer.data).hex()}"'
    assert answer.headers["Content-Type"] in (pages.HTML, pages.CSS, pages.SCRIPT)
    again = client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["Content-Security-Policy"] == answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    ["/assets/", "/assets/chat.html", "/assets/../chat.js", "/assets/%2e%2e/settings.py",
     "/assets/pages.py", "/assets/verify.html", "/assets/chat.js%00", "/chat.html"],
)  # fmt: skip
def test_nothing_else_is_served(client, path):
    assert client.get(path).status_code == 404


def directives(policy):
    return dict(part.strip().split(" ", 1) for part in policy.split(";"))


def test_the_policy_of_the_pages(client):
    for path in pages.FILES.keys() - {"/verify.html"}:
        assert directives(client.get(path).headers["Content-Security-Policy"]) == {
            "default-src": "'none'", "script-src": "'self'", "style-src": "'self'",
            "connect-src": "'self'", "img-src": "'self' data:", "base-uri": "'none'",
            "form-action": "'none'", "frame-ancestors": "'none'",
        }  # fmt: skip


def test_the_verifier_is_the_published_one(client):
    """verify.html is served byte for byte, and the chat page runs its very script."""
    page = build_page.page()
    assert client.get("/verify.html").data == page
    script = client.get("/assets/verifier.js").data.decode()
    assert page.decode().count(f"<script>{script}</script>") == 1
    policy = directives(client.get("/verify.html").headers["Content-Security-Policy"])
    assert policy["default-src"] == "'none'"
    assert policy["script-src"].startswith("'sha256-")
    assert policy["frame-ancestors"] == "'none'"


@pytest.mark.parametrize("page", [b"", b"<script>1</script><script>2</script>", b"<script>"])
def test_a_page_without_exactly_one_script_is_refused(page):
    with pytest.raises(ValueError, match="exactly one script"):
        pages.verifier_script(page)


def test_a_verifier_without_a_policy_is_refused():
    with pytest.raises(ValueError, match="no policy"):
        pages.verifier_policy(b"<script></script>")


def test_nothing_comes_from_elsewhere():
    for name, text in TEXTS.items():
        addresses = set(re.findall(r"https?://[^\s\"')]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert not re.search(r"@import|url\(", text), name


def test_no_text_becomes_markup():
    found = re.compile(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|DOMParser|\beval\b|new Function"
        r"|setTimeout\(\s*[\"']|createContextualFragment|\.on[a-z]+=[\"']|javascript:"
    )
    for name, text in TEXTS.items():
        assert not found.search(text), name
        if name.endswith(".html"):
            assert not re.search(r"\sstyle=|\son[a-z]+=|<script(?! type=\"module\" src=)", text), (
                name
            )


def test_files_stay_small():
    assert all(len(text.splitlines()) <= 320 for text in TEXTS.values())
