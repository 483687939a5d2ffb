"""The labels with which SM3 inputs of this project begin: an ASCII name and a zero byte.

A digest made under one label says nothing where another purpose is expected. Trees have the
one-byte prefixes of RFC 9162 instead (`crypto.merkle`). The table in crypto/README.md lists them
all; a test compares.
"""

from __future__ import annotations

from typing import Final

VQF_MANIFEST: Final = b"windhover/vqf/manifest;v=4\x00"
VQF_DATA_CIPHER: Final = b"windhover/vqf/data-cipher;v=4\x00"
VQF_MANIFEST_CIPHER: Final = b"windhover/vqf/manifest-cipher;v=4\x00"
VQF_TAGS: Final = b"windhover/vqf/tags;v=4\x00"
VQF_HEADER_KEY: Final = b"windhover/vqf/header-key;v=4\x00"
VQF_HEADER: Final = b"windhover/vqf/header;v=4\x00"
VQF_MANIFEST_TAG: Final = b"windhover/vqf/manifest-tag;v=4\x00"
VQF_CHUNK_TAG: Final = b"windhover/vqf/chunk-tag;v=4\x00"
VQF_WRAP_CIPHER: Final = b"windhover/vqf/wrap-cipher;v=4\x00"
VQF_WRAP_KEY: Final = b"windhover/vqf/wrap-key;v=4\x00"
VQF_WRAP: Final = b"windhover/vqf/wrap;v=4\x00"
SM2_HEDGE_SECRET: Final = b"windhover/sm2/hedge-secret;v=1\x00"
SM2_HEDGE: Final = b"windhover/sm2/hedge;v=1\x00"
SM2_NONCE: Final = b"windhover/sm2/nonce;v=1\x00"
TRUST: Final = b"windhover/trust;v=1\x00"
FLOORS: Final = b"windhover/floors;v=1\x00"
RELEASE_PAYLOAD: Final = b"windhover/release-payload;v=1\x00"
COMMITMENT: Final = b"windhover/commitment;v=1\x00"
SEED: Final = b"windhover/seed;v=1\x00"
CHALLENGE: Final = b"windhover/challenge;v=1\x00"
SOFTWARE_LIST: Final = b"windhover/software-list;v=1\x00"
SOFTWARE_LIST_FILE: Final = b"windhover/software-list-file;v=1\x00"
CHECKPOINT_OBJECT: Final = b"windhover/checkpoint-object;v=1\x00"
LOG_SEGMENT: Final = b"windhover/log-segment;v=1\x00"
LOG_HEAD: Final = b"windhover/log-head;v=1\x00"
LOG_RECORD: Final = b"windhover/log-record;v=1\x00"
LOG_INDEX: Final = b"windhover/log-index;v=1\x00"
LOG_ANCHOR: Final = b"windhover/log-anchor;v=1\x00"
API_KEY: Final = b"windhover/api-key;v=1\x00"
PREFIX_CACHE: Final = b"windhover/prefix-cache;v=1\x00"
KV_SPILL_KEYS: Final = b"windhover/kv-spill-keys;v=1\x00"
KV_SPILL_TAG: Final = b"windhover/kv-spill-tag;v=1\x00"
HE_RECORD: Final = b"windhover/he-record;v=1\x00"
HE_CIPHERTEXT: Final = b"windhover/he-ciphertext;v=1\x00"
HE_PLAN: Final = b"windhover/he-plan;v=1\x00"
HE_CALIBRATION: Final = b"windhover/he-calibration;v=1\x00"
HE_REPORT: Final = b"windhover/he-report-file;v=1\x00"
HE_PROMPT: Final = b"windhover/he-prompt;v=1\x00"
HE_CANARY: Final = b"windhover/he-canary;v=1\x00"
