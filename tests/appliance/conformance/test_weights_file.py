"""The file of the weights changes under a service: at its start, and while it answers."""

from __future__ import annotations

import shutil

import httpx
import pytest

from appliance.cli.errors import describe
from tests.appliance.conformance.spoken import opened, speak
from tests.appliance.service.site import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory, tiny_file):
    """A folder that a service could start from."""
    return Site(tmp_path_factory.mktemp("weights"), tiny_file)


@pytest.fixture
def weights(site):
    """The file, to be changed: it is put back."""
    path = site.path("model.vqf")
    content = path.read_bytes()
    yield path
    path.write_bytes(content)


def refusal(site):
    """Start it, which has to fail; return the line for people."""
    start = site.start()
    assert start.failure is not None
    assert start.service.attestor is None
    assert start.service.state.phase == "failed"
    return describe(start.failure).message


@pytest.mark.parametrize("left", [0, 100, 5000, -4096, -1])
def test_a_truncated_file_is_not_started_from(site, weights, left):
    content = weights.read_bytes()
    weights.write_bytes(content[:left])
    assert "(rule R" in refusal(site)


@pytest.mark.parametrize("more", [b"\0", b"\0" * 4096, b"something else"])
def test_a_file_with_something_behind_its_end_is_not_started_from(site, weights, more):
    with weights.open("ab") as file:
        file.write(more)
    assert "(rule R" in refusal(site)


def test_a_file_that_is_no_weights_is_not_started_from(site, weights):
    shutil.copy(site.path("trust.toml"), weights)
    assert "(rule R" in refusal(site)


def model_digest(live):
    return live.get("/.well-known/windhover").json()["model_digest"]


def test_a_running_service_goes_on_with_the_weights_that_it_verified(live):
    """Weights lie in memory as a whole: what happens to the file afterwards changes no answer."""
    path = live.site.path("model.vqf")
    content = path.read_bytes()
    asked = {"max_tokens": 6, "seed": 4}
    before, digest = opened(live, speak(live, **asked).attestation), model_digest(live)

    def is_as_before():
        assert opened(live, speak(live, **asked).attestation) == before
        assert httpx.get(f"{live.url}/ready").status_code == 200
        assert model_digest(live) == digest

    try:
        with path.open("ab") as file:
            file.write(b"something else")
        is_as_before()
        with path.open("r+b") as file:
            file.truncate(100)
        is_as_before()
        other = path.with_name("other.vqf")
        other.write_bytes(content[::-1])
        other.replace(path)
        is_as_before()
        path.unlink()
        is_as_before()
    finally:
        path.write_bytes(content)
