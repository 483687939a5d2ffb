"""One attested answer of the command line: admitted, generated, closed, and its bundle written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from appliance.api.parse import parse_request
from appliance.api.prompt import prompt_ids
from appliance.api.write import write_request
from appliance.attestation import Admitted, Answer, Attestor, Order
from appliance.cli.attest import Attestation
from appliance.cli.inputs import read_public
from appliance.cli.output import note
from appliance.cli.secrets import private_keys
from appliance.facts import facts_of
from appliance.log.anchor import FileAnchor
from appliance.log.files import LogFiles
from appliance.log.log import Log
from appliance.software import begin_software_digest
from crypto.atomic import AtomicFile
from crypto.checkpoint import decode_checkpoint
from crypto.cose import decode_sign1
from crypto.evidence import MAX_OBJECT_BYTES
from crypto.floors import Floors
from crypto.revocations import MAX_REVOCATIONS_BYTES
from crypto.signer import SoftwareSigner
from crypto.transcript import answer_entries, build
from engine.errors import ConfigError
from engine.generate import Generation, generate
from engine.sequence import Request

if TYPE_CHECKING:
    from appliance.bundle import Bundle
    from engine.admission import WeightsPolicy
    from engine.model import Model

_MODEL_NAME: Final = "local"


class Wish(NamedTuple):
    """What a person asked for, as the body of a request says it.

    text: the prompt. system: a message before it. raw: whether it is continued as it is.
    options: further fields of the body.
    """

    text: str
    system: str | None
    raw: bool
    options: Mapping[str, str | Sequence[str] | int | None]


class Attested(NamedTuple):
    """An answer whose statement is durable. seed: the one that it was drawn with."""

    generation: Generation
    bundle: Bundle
    seed: int


class Opened(NamedTuple):
    """A log that is being written. software: gives the software digest."""

    signer: SoftwareSigner
    log: Log
    issuer: str
    software: Callable[[], bytes]


@contextmanager
def opened(attestation: Attestation, policy: WeightsPolicy) -> Iterator[Opened]:
    """Read the key, start the log, and begin with the software digest, which takes seconds.

    Raises:
        KeyFileError: as `private_keys`.
        CryptoError, OSError: as `Log`.
    """
    key_path, folder, anchor = attestation.paths
    floors = Floors if policy.floors is None else policy.floors.read
    with private_keys((key_path,), attestation.key_passphrase, role="attest") as (key,):
        signer, store = SoftwareSigner(key), FileAnchor(anchor)
        issuer = decode_checkpoint(_payload(LogFiles(folder, None).head.checkpoint)).issuer
        with Log(folder, signer=signer, issuer=issuer, anchor=store, floors=floors) as log:
            yield Opened(signer, log, issuer, begin_software_digest())


def answer_attested(
    model: Model,
    wish: Wish,
    attestation: Attestation,
    into: Opened,
    *,
    revocations: Path | None,
    trace: bool,
    on_text: Callable[[str], None],
) -> Attested:
    """Answer one request and return when its statement is durable and its bundle written.

    Args:
        model: the model.
        wish: what is asked.
        attestation: the options.
        into: the log.
        revocations: file of the list in force, which the bundle carries on.
        trace: whether to hash the residual stream.
        on_text: called with each piece of text.

    Raises:
        EngineError: as `engine.generate.generate`; after the admission the failure is attested.
        CryptoError: no statement, so there is no answer.
        WriteError: the bundle cannot be written.
    """
    in_force = None if revocations is None else read_public(revocations, MAX_REVOCATIONS_BYTES)
    attestor = Attestor(
        into.signer,
        into.log,
        facts_of(model, revocations=in_force),
        issuer=into.issuer,
        software=into.software,
    )
    if lost := attestor.close_lost():
        note(f"{lost} requests that were admitted before had no statement; they are closed as lost")
    session = _Session(model, attestor, trace=trace, on_text=on_text)
    session.prepare(wish, attestation.nonce_bytes())
    if attestation.bundle is None:
        return session.run()
    with AtomicFile(attestation.bundle, force=False, mode=0o600) as file:
        file.create()  # a name that is taken is refused before the request is admitted
        try:
            return session.run()
        finally:
            if session.bundle is not None:
                file.write_at(0, session.bundle.encode())
                file.commit()


class _Session:
    """One request on its way from its bytes to its bundle."""

    def __init__(
        self, model: Model, attestor: Attestor, *, trace: bool, on_text: Callable[[str], None]
    ) -> None:
        self._model = model
        self._attestor = attestor
        self._trace = trace
        self._on_text = on_text
        self._pieces: list[str] = []
        self._order: Order
        self._request: Request
        self._stops: tuple[str, ...]
        self.bundle: Bundle | None = None

    def prepare(self, wish: Wish, nonce: bytes | None) -> None:
        """Make the request; what is wrong with it is found before it is admitted.

        Raises:
            EngineError: it cannot be answered.
        """
        model = self._model
        path, body = _body(model, wish)
        parsed = parse_request(path, body)
        now_ms = self._attestor.now_ms()
        ids = prompt_ids(model, parsed, now_unix_s=now_ms // 1000)
        if parsed.max_tokens is None:
            raise ConfigError("the request says nothing about max_tokens")
        self._stops = parsed.stops
        self._request = Request(
            ids, parsed.max_tokens, parsed.sampling, model.tokenizer_config.eos_ids, self._trace
        )
        self._request.check(model.engine.max_positions, model.engine.config.vocab_size)
        self._order = Order(
            path=path,
            body=body,
            prompt_ids=ids,
            parameters=parsed.parameters(parsed.max_tokens),
            admitted_ms=now_ms,
            seed=parsed.seed,
            nonce=nonce,
        )

    def run(self) -> Attested:
        """Admit, answer and close; whatever happens after the admission is attested."""
        admitted = self._attestor.admit(self._order)
        try:
            generation = self._generate(admitted.seed)
        except (KeyboardInterrupt, BrokenPipeError) as error:
            gone = isinstance(error, BrokenPipeError)
            self._close(admitted, "disconnected" if gone else "cancelled", "cancelled")
            raise
        except BaseException:
            self._close(admitted, "error", "error")
            raise
        bundle = self._close(admitted, "answered", generation.finish_reason.value, generation)
        return Attested(generation, bundle, admitted.seed)

    def _generate(self, seed: int) -> Generation:
        def on_text(piece: str) -> None:
            self._pieces.append(piece)
            self._on_text(piece)

        request = replace(self._request, sampling=replace(self._request.sampling, seed=seed))
        return generate(self._model, request, stops=self._stops, on_text=on_text)

    def _close(
        self,
        admitted: Admitted,
        outcome: str,
        finish_reason: str,
        generation: Generation | None = None,
    ) -> Bundle:
        """Attest how it ended; what was handed out is said in any case."""
        entries = answer_entries(content="".join(self._pieces), finish_reason=finish_reason)
        self.bundle = self._attestor.close(
            admitted,
            Answer(
                outcome=outcome,
                finish_reason=finish_reason,
                transcript=build([entries]),
                output_ids=None if generation is None else generation.token_ids,
                trace_root=None if generation is None else generation.trace_root,
            ),
        )
        return self.bundle


def _body(model: Model, wish: Wish) -> tuple[str, bytes]:
    """Return path and body of the request that a wish is."""
    if wish.raw or (model.template is None and wish.system is None):
        return write_request(model=_MODEL_NAME, prompt=wish.text, options=wish.options)
    messages = [] if wish.system is None else [{"role": "system", "content": wish.system}]
    messages.append({"role": "user", "content": wish.text})
    return write_request(model=_MODEL_NAME, messages=messages, options=wish.options)


def _payload(signed: bytes) -> bytes:
    return decode_sign1(signed, max_bytes=MAX_OBJECT_BYTES).payload
