"""What each protocol claims and what it does not, in the words that every run prints."""

from __future__ import annotations

from typing import Final

from he_chain.parameters import Parameters
from he_chain.security import check

CLAIMS: Final[dict[str, tuple[str, ...]]] = {
    "assist": (
        "The evaluator sees ciphertexts, positions and shapes; it never has the secret key.",
        "The key holder sees every input and output of the linear layers and computes what is not "
        "linear in the clear. This protects its data from the evaluator; it does not protect the "
        "weights from the key holder, who can solve for them.",
        "Before the run the key holder is given the rows of the embedding, which are the head as "
        "well where the two are tied, and the norms of queries and keys.",
    ),
    "refresh": (
        "The evaluator sees ciphertexts, positions and shapes; it never has the secret key.",
        "The key holder only decrypts x + r and encrypts it again, r uniform and drawn by the "
        "evaluator: statistical blinding of as many bits as the ledger says, never perfect.",
        "The key holder sees the final result.",
    ),
    "boot": (
        "The evaluator sees ciphertexts, positions and shapes; it never has the secret key.",
        "Between input and output nothing is asked of the key holder, who sees the final result.",
        "Inside a bootstrap the modulus is raised under an ephemeral secret that is sparse: the "
        "standard tables do not cover it.",
    ),
}
"""By protocol."""

LIMITS: Final = (
    "Honest but curious sides only: nothing here finds out a side that departs from the protocol "
    "but the comparison with the plaintext, which takes the secret key.",
    "CKKS is IND-CPA and not IND-CPA-D (Li and Micciancio, 2021): the key holder must give away no "
    "decrypted value; what it encrypts anew is fine. The errors in a report are functions of "
    "decrypted values, so under a key that stays in use a report is for its holder only.",
    "Security is what a published table or the library's author says of the parameters; sparse "
    "secrets are outside the tables: a library claim.",
    "The evaluator learns which model runs, how many tokens there are, and when.",
    "Counts, seconds, memory and ledger are what the evaluator writes down: signed, not proven.",
)
"""Of every protocol."""


def security_line(parameters: Parameters, backend: str, protocol: str) -> str:
    """Return what is claimed of the parameters, in one line.

    Raises:
        SecurityError: they do not have 128 bits; not of the mock, which encrypts nothing.
    """
    ring = f"N = {parameters.ring_degree}, modulus {parameters.total_bits} bits"
    if backend == "mock":
        return f"none: the mock encrypts nothing ({ring})"
    found = check(parameters, 128, "sparse" if protocol == "boot" else "ternary")
    return f"{found.bits} bits, {found.claim}, {found.source}: {ring}, margin {found.margin_bits}"
