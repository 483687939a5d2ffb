"""Settings that every test shares."""

from __future__ import annotations

import os

from hypothesis import settings

# Compiling a kernel inside an example takes seconds, so no example has a deadline. On a submission
# the examples are the same in every run: a change is judged by what it changed.
settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
