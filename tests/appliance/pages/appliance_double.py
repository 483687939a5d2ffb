"""A small service with the wire format of the real one, whose answers a test decides.

Bundles are whole and signed: those of the verifier's tests, made over what was really sent.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import contextmanager

from flask import Flask, Response, jsonify, request
from waitress.server import create_server

from appliance.service.routes import pages
from crypto import cbor
from tests.verifier.bundle_case import LOG, Made, signer, sm3

KEY = "wh-abcdefgh-0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
HOUR_MS = 3_600_000


def event(body):
    text = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def chunk(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny",
            "choices": [choice]} | more  # fmt: skip


class Script:
    """What the next answer is like."""

    def __init__(self):
        self.pieces = ["Hello, ", "world."]
        self.finish = "stop"
        self.cut_after = None  # events before the stream just ends
        self.error = None  # {"error": ...} in the stream, behind the pieces
        self.refusal = None  # (status, body, headers) in place of a stream
        self.gate = None  # an event that is waited for behind the first piece
        self.raw = None  # bytes in place of all events
        self.change = lambda made: None  # what is wrong with the bundle
        self.bundle_status = 200


class Double:
    """The service, and what it was asked."""

    def __init__(self):
        self.script = Script()
        self.status = {}
        self.ready = (200, {"status": "ready", "reasons": []})
        self.bodies, self.nonces, self.bundles = [], [], {}
        self.trust = Made().trust
        self.key = signer("attest").public_key
        self.app = Flask(__name__)
        self.app.register_blueprint(pages.BLUEPRINT)
        for path, view in (
            ("/v1/chat/completions", self.chat),
            ("/v1/attestations/<name>", self.attestation),
            ("/.well-known/windhover", self.well_known),
            ("/ready", lambda: (jsonify(self.ready[1]), self.ready[0])),
            ("/v1/status", self.status_view),
        ):
            methods = ["POST"] if "chat" in path else ["GET"]
            self.app.add_url_rule(path, path, view, methods=methods)

    def refusal(self):
        if request.headers.get("Authorization") == f"Bearer {KEY}":
            return None
        error = {"message": "this key is not known", "type": "invalid_request_error",
                 "param": None, "code": "invalid_api_key"}  # fmt: skip
        return jsonify(error=error), 401

    def well_known(self):
        key = base64.b64encode(self.key.spki_der()).decode()
        return jsonify(model="tiny", attest_key=key, log_id=LOG.hex())

    def status_view(self):
        return self.refusal() or jsonify(self.status)

    def attestation(self, name):
        assert request.headers["Accept"] == "application/cbor"
        if refused := self.refusal():
            return refused
        if self.script.bundle_status != 200 or name not in self.bundles:
            error = {"message": "no such attestation", "type": "invalid_request_error",
                     "param": None, "code": "not_found"}  # fmt: skip
            return jsonify(error=error), 404
        return Response(self.bundles[name], content_type="application/cbor")

    def chat(self):
        if refused := self.refusal():
            return refused
        script, body = self.script, request.get_data()
        self.bodies.append(body)
        self.nonces.append(bytes.fromhex(request.headers["Windhover-Nonce"]))
        if script.refusal is not None:
            status, answer, headers = script.refusal
            return answer, status, headers
        name = f"att{len(self.bodies)}"
        self.bundles[name] = self.bundle(script, body, self.nonces[-1])
        headers = {"Windhover-Attestation": name, "X-Accel-Buffering": "no"}
        return Response(
            self.events(script, name), headers=headers,
            content_type="text/event-stream; charset=utf-8",
        )  # fmt: skip

    def events(self, script, name):
        if script.raw is not None:
            yield script.raw
            return
        said = [event(chunk({"role": "assistant", "content": ""}))]
        said += [event(chunk({"content": piece})) for piece in script.pieces]
        for number, data in enumerate(said[: script.cut_after]):
            if number == 2 and script.gate is not None:
                while not script.gate.wait(0.05):
                    yield b": ping\n\n"
            # two pieces of the stream that end in the middle of an event, and of a character
            yield data[: len(data) // 2]
            yield data[len(data) // 2 :]
        if script.error is not None:
            yield event(script.error)
        if script.cut_after is None and script.error is None:
            attestation = {"id": name, "log_id": LOG.hex(), "sequence": 8,
                           "url": f"/v1/attestations/{name}", "statement": ""}  # fmt: skip
            yield event(chunk({}, script.finish, attestation=attestation))
            yield event("[DONE]")

    @staticmethod
    def bundle(script, body, nonce):
        made, now = Made(), time.time_ns() // 1_000_000
        made.texts["request"] = b"/v1/chat/completions\0" + body
        text = "".join(script.pieces).encode()
        finish = [6, 0, 0, script.finish.encode()]
        made.texts["transcript"] = cbor.encode(([[1, 0, 0, text]] if text else []) + [finish])
        seed = int.from_bytes(sm3(b"windhover/seed;v=1\0", nonce)[:8], "little")
        for claims in (made.admission, made.statement):
            claims |= {-70205: now - 2000, -70207: nonce, -70223: seed}
        made.statement |= {-70206: now - 1000, -70227: script.finish}
        made.checkpoint[-70243] = now - 500
        made.release |= {-70104: (now - HOUR_MS) // 1000, -70105: (now + HOUR_MS) // 1000}
        script.change(made)
        return made.bundle()

    @contextmanager
    def serving(self):
        """Serve on a free port; gives the address."""
        server = create_server(self.app, host="127.0.0.1", port=0, threads=8)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.effective_port}"
        finally:
            server.close()
            thread.join(10)
            server.task_dispatcher.shutdown()
