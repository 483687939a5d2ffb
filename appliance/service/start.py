"""From a configuration to a service that answers: step after step, each with its name and its time.

The service is there at once, in the state `loading`, so that /health and /ready have something to
say; the steps run in a thread of their own. What fails ends in the state `failed` with one line,
and nothing is ever answered. The order matters: what is compiled or loaded comes before the lock,
whatever promises something to the outside after everything that can still fail.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from appliance.attestation import Attestor
from appliance.cli.errors import describe
from appliance.facts import facts_of
from appliance.log.log import Log
from appliance.service import housekeeping, kernel_cache, preflight
from appliance.service.lock import lock
from appliance.service.release_check import check_software
from appliance.service.start_report import StartReport, Step
from appliance.software import begin_software_digest
from crypto.errors import UnavailableError
from crypto.floors import Floors
from crypto.selftest import ensure_self_tested
from engine.errors import CancelledError, ConfigError

if TYPE_CHECKING:
    from appliance.service.service import Service
    from engine.memory.residency import Mode
    from engine.model import Model

STEPS: Final = {
    "self-tests": "comparing SM2, SM3 and SM4 with their published examples",
    "log-check": "comparing the log with its anchor",
    "policy": "reading whose weights and software are accepted",
    "kernels": "loading the compiled kernels",
    "weights": "reading and verifying the weights",
    "known-answers": "comparing the kernels with known answers",
    "warm-up": "answering once, to nobody",
    "lock": "locking the process against new executable memory",
    "software": "comparing the files of the software with what is signed",
    "log": "opening the log, and closing what an earlier process left open",
    "engine": "starting the engine",
}
"""The steps in their order, and what they are doing."""


class Start:
    """One start of one service. `begin` returns at once, `wait` when it is over."""

    def __init__(self, service: Service, *, kernels: str, notes: tuple[str, ...] = ()) -> None:
        """Prepare it; nothing happens yet.

        Args:
            service: in the state `loading`.
            kernels: what `kernel_cache.choose` said.
            notes: what was noted before.
        """
        self.service = service
        self.report = service.report = StartReport(kernels=kernels, notes=notes)
        self.failure: BaseException | None = None
        self._begun = time.monotonic()
        self._over = threading.Event()
        self._is_unwanted = threading.Event()
        self._open = ExitStack()
        self._thread = threading.Thread(target=self._run, name="windhover-start", daemon=True)

    def begin(self) -> None:
        """Begin with the first step, in a thread."""
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; return whether it has come. `failure` then says how."""
        return self._over.wait(timeout_s)

    def close(self) -> None:
        """End what was started, in the opposite order; keys are wiped.

        A start that is still going on ends at the next opportunity, and is waited for.
        """
        self._is_unwanted.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._open.close()

    def _run(self) -> None:
        try:
            self._load()
            housekeeping.settle()
            self._note(seconds=time.monotonic() - self._begun)
            self.service.state.ready()
        except BaseException as error:
            self.failure = error
            self.service.state.failed(preflight.summary(error), describe(error).message)
        finally:
            self._over.set()

    def _load(self) -> None:
        """Take the steps.

        Raises:
            Exception: whatever is wrong; `appliance.cli.errors` has a line for each.
        """
        settings = self.service.settings
        is_dev = settings.mode == "dev"
        with self._step("self-tests"):
            ensure_self_tested()
        if (failure := self.service.keys.failure) is not None:
            raise ConfigError(f"{failure}; `windhover apikey new {settings.auth.keys}` makes a key")
        with self._step("log-check"):
            signer = preflight.read_attest_key(settings, self._open)
            attesting = preflight.check_log(settings, signer)
        with self._step("policy"):
            policy = preflight.read_policy(settings, attesting.size)
            floors = policy.weights.floors
            if floors is not None and policy.weights.revocations is not None:
                # The list is genuine even if the weights are then refused: no older one comes back.
                floors.raise_revocations(policy.weights.revocations.sequence)
        with self._step("kernels"):
            kernel_cache.load()
        with self._step("weights"):
            model = self._read_model(policy)
        # A process of its own: it reads files while this one computes.
        software = begin_software_digest()
        from appliance.service import warmup  # noqa: PLC0415  (imports numba)

        with self._step("known-answers"):
            self._note(known_answers=warmup.check_known_answers(model))
        with self._step("warm-up"):
            warmup.warm(model)
        with self._step("lock"):
            self._lock(is_allowed_open=settings.dev.allow_unlocked)
        with self._step("software"):
            digest = software()
            if policy.software is not None:
                self._note(release=check_software(policy.software, digest, is_dev=is_dev))
        with self._step("log"):
            log = self._open.enter_context(
                Log(
                    settings.attest.log,
                    signer=signer,
                    issuer=attesting.issuer,
                    anchor=attesting.anchor,
                    archive=settings.attest.archive,
                    floors=Floors if floors is None else floors.read,
                )
            )
            state = "open" if self.report.lock is None else self.report.lock.state
            facts = facts_of(
                model, revocations=policy.revocations, write_xor_execute=state, dev=is_dev
            )
            attestor = Attestor(signer, log, facts, issuer=attesting.issuer, software=software)
            self._note(lost=attestor.close_lost())
        with self._step("engine"):
            self._serve(model, log, attestor)

    def _read_model(self, policy: preflight.Policy) -> Model:
        """Read every byte of the weights, and start the engine's threads."""
        from engine.kv.budget import KvBudget  # noqa: PLC0415
        from engine.memory.residency import Residency  # noqa: PLC0415
        from engine.model import Model  # noqa: PLC0415  (imports numba)

        limit = housekeeping.raise_memory_limit()
        settings = self.service.settings.model
        with preflight.unlocking(self.service.settings) as unlock, preflight.naming(settings.file):
            model = Model(
                settings.file,
                policy=policy.weights,
                unlock=unlock,
                num_threads=settings.threads or None,
                max_rows=settings.prefill_tokens + settings.max_running,
                max_outputs=settings.max_running,
                max_positions=settings.context_tokens or None,
                residency=Residency(
                    cast("Mode", settings.residency),
                    settings.window_mb << 20,
                    settings.keep_layers,
                    settings.drop_page_cache,
                ),
                kv_budget=None
                if settings.kv_folder is None
                else KvBudget(settings.kv_folder, settings.kv_memory_mb << 20),
                progress=self._progress,
            )
        self._open.enter_context(model)
        report = housekeeping.MemoryReport(model.resident_bytes, model.locked_bytes, limit)
        self._note(memory=report)
        return model

    def _lock(self, *, is_allowed_open: bool) -> None:
        """End compilation and lock the process.

        Raises:
            UnavailableError: it could not be locked, and has to be.
        """
        from simd.compilation import end_compilation  # noqa: PLC0415  (imports numba)

        end_compilation()
        state = lock()
        self._note(lock=state)
        if not state.is_locked and not is_allowed_open:
            raise UnavailableError(
                f"the process is not locked against new executable memory: {state.reason}; it must "
                'not serve. In mode "dev", allow_unlocked = true under [dev] does without'
            )

    def _serve(self, model: Model, log: Log, attestor: Attestor) -> None:
        """Hand over what routes need, and start the threads that answer."""
        self._open.callback(self.service.stop)
        self.service.begin(model=model, log=log, attestor=attestor)

    def _progress(self, done: int, total: int) -> None:
        self._require_wanted()
        percent = 100 * done // total if total else 100
        self.service.state.loading("weights", f"{STEPS['weights']}: {percent} %")

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        self._require_wanted()
        self.service.state.loading(name, STEPS[name])
        begun = time.monotonic()
        yield
        step = Step(name, time.monotonic() - begun)
        self._note(steps=(*self.report.steps, step), seconds=time.monotonic() - self._begun)

    def _require_wanted(self) -> None:
        """Go on only while the service is wanted.

        Raises:
            CancelledError: it is not.
        """
        if self._is_unwanted.is_set():
            raise CancelledError("the start was ended before the service was ready")

    def _note(self, **fields: Any) -> None:  # noqa: ANN401  (fields of `StartReport`)
        self.report = self.service.report = self.report._replace(**fields)


def prepare_process(kernels: Path | None, *, is_dev: bool) -> tuple[str, tuple[str, ...]]:
    """Do what has to come before anything else in the process.

    Args:
        kernels: the folder of prepared kernels.
        is_dev: whether the service runs in mode `dev`.

    Returns:
        Where kernels come from, as of `kernel_cache.choose`, and lines for a person.

    Raises:
        ConfigError: the prepared kernels cannot be used.
    """
    notes = housekeeping.clean_environment()
    housekeeping.keep_bytecode()
    housekeeping.no_core_dumps()
    return kernel_cache.choose(kernels, is_dev=is_dev), tuple(notes)
