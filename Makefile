# Every target works in a fresh clone: what it needs is installed into .venv first, from requirements.lock.
#
#   make serve          the service with a real model on 127.0.0.1:8080: sealed, signed, every answer attested
#   make demo           a real model, from the package index to an answer: converted, signed, sealed, checked
#   make models         the same model, and no answer
#   make test           the fast suite; installs Debian's chromium and nginx for it where it may
#   make test-ci        what every submission has to pass: lint, the fast suite, chosen slow tests
#   make test-all       every test, however long
#   make image          the read-only image of the appliance, into dist/image; as root
#   make boot-test      boots the image in QEMU, asks it, cuts its power, alters it; minutes with KVM
#   make test-aarch64   the same bits on an emulated ARM machine and an emulated older x86-64 one
#   make bench          the project's own benchmarks
#   make lint           style, types
#   make lock           resolve the dependencies of pyproject.toml again
#   make wheelhouse     what an installation without a network needs, into dist/wheelhouse

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3)
PYTHON := $(PYTHON)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.windhover-stamp
export PATH := $(CURDIR)/$(BIN):$(PATH)
UV_VERSION := 0.13.9

MODELS := models
DEMO_GGUF := $(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf
DEMO_VQF := $(MODELS)/smollm2-135m.vqf
DEMO_SEALED := $(MODELS)/smollm2-135m.sealed.vqf
DEMO_KEYS := $(MODELS)/demo-keys
DEMO_TRUST := $(DEMO_KEYS)/trust.toml
DEMO_SERVICE := $(addprefix $(DEMO_KEYS)/,attest.toml log.toml verifier.toml api.key appliance.toml)
DEMO_ADDRESS := 127.0.0.1:8080
DEMO_PROMPT := What is the capital of Italy? Answer in one word.

.PHONY: help venv serve demo models bench lint lock test test-ci test-all test-aarch64 browser tools boot-test boot-tools image wheelhouse

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "make: Python 3.11 or later is needed; name it with PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "make: $(PYTHON) cannot create environments; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "installing the pinned environment into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DEMO_GGUF): | $(STAMP)
	windhover fetch-demo-model $(MODELS)

# keys of a demonstration: without passphrases, and trusted by this one trust file
$(DEMO_TRUST): | $(STAMP)
	mkdir -p -m 700 $(DEMO_KEYS)
	rm -f $(DEMO_KEYS)/{vendor,appliance}{,.pub}.pem
	printf 'version = 1\n\n[lines.smollm2]\nsigners = ["vendor"]\nthreshold = 1\n\n' > $@
	windhover keygen $(DEMO_KEYS)/vendor.pem --role weights --no-passphrase >> $@
	windhover keygen $(DEMO_KEYS)/appliance.pem --role unseal --no-passphrase >> $@

# converted and signed under another name, so that what is killed in between is begun again
$(DEMO_VQF): $(DEMO_GGUF) $(DEMO_TRUST) | $(STAMP)
	windhover convert $(DEMO_GGUF) $@.new --force
	windhover sign $@.new --key $(DEMO_KEYS)/vendor.pem --line smollm2 --release 1
	mv $@.new $@

$(DEMO_SEALED): $(DEMO_VQF) | $(STAMP)
	windhover seal $(DEMO_VQF) $@ --to $(DEMO_KEYS)/appliance.pub.pem --force

models: $(DEMO_SEALED)

demo: $(DEMO_SEALED)
	windhover check $(DEMO_SEALED) --trust $(DEMO_TRUST) --key $(DEMO_KEYS)/appliance.pem --floors $(DEMO_KEYS)/floors
	windhover generate $(DEMO_SEALED) --trust $(DEMO_TRUST) --key $(DEMO_KEYS)/appliance.pem --floors $(DEMO_KEYS)/floors \
	  --temperature 0 --prompt "$(DEMO_PROMPT)"

# what the service has besides: each file is complete or not there, and none is made twice, for a log
# that was used must not be begun again
$(DEMO_KEYS)/attest.toml: | $(DEMO_TRUST)
	rm -f $(DEMO_KEYS)/attest{,.pub}.pem
	windhover keygen $(DEMO_KEYS)/attest.pem --role attest --no-passphrase > $@.new
	mv $@.new $@

$(DEMO_KEYS)/log.toml: | $(DEMO_KEYS)/attest.toml
	rm -rf $(DEMO_KEYS)/{log,anchor,log.txt}
	windhover log new $(DEMO_KEYS)/log --key $(DEMO_KEYS)/attest.pem --issuer "demo appliance" \
	  --anchor $(DEMO_KEYS)/anchor > $(DEMO_KEYS)/log.txt
	tail -n 2 $(DEMO_KEYS)/log.txt | sed s/NAME/demo/ > $@.new
	mv $@.new $@

# for whoever verifies: the signer of the weights, the key that attests, the log
$(DEMO_KEYS)/verifier.toml: | $(DEMO_TRUST) $(DEMO_KEYS)/log.toml
	cat $(DEMO_TRUST) $(DEMO_KEYS)/attest.toml $(DEMO_KEYS)/log.toml > $@.new
	mv $@.new $@

$(DEMO_KEYS)/api.key: | $(DEMO_TRUST)
	rm -f $(DEMO_KEYS)/api-keys.json $@.new
	windhover apikey new $(DEMO_KEYS)/api-keys.json --name demo --out $@.new \
	  $(addprefix --scope ,generate embeddings models attestations log status metrics) > /dev/null
	mv $@.new $@

$(DEMO_KEYS)/appliance.toml: | $(DEMO_TRUST)
	printf '%s\n' '[model]' 'file = "../$(notdir $(DEMO_SEALED))"' 'name = "smollm2-135m"' \
	  'trust = "trust.toml"' 'floors = "floors"' 'unseal_key = "appliance.pem"' \
	  'kernel_cache = "../kernels"' '' '[attest]' 'key = "attest.pem"' 'log = "log"' \
	  'anchor = "anchor"' 'issuer = "demo appliance"' '' '[auth]' 'keys = "api-keys.json"' '' \
	  '[server]' 'listen = "$(DEMO_ADDRESS)"' '' '[log]' 'file = "access.jsonl"' > $@.new
	mv $@.new $@

serve: $(DEMO_SEALED) | $(DEMO_SERVICE)
	@python -m compileall -q appliance crypto engine he_chain simd verifier
	windhover compile-cache $(MODELS)/kernels
	@echo
	@echo "When it is ready, open   http://$(DEMO_ADDRESS)/#key=$$(cat $(DEMO_KEYS)/api.key)"
	@echo "or ask on a command line:"
	@echo "  curl http://$(DEMO_ADDRESS)/v1/chat/completions -H \"Authorization: Bearer \$$(cat $(DEMO_KEYS)/api.key)\" \\"
	@echo "    -H 'Content-Type: application/json' \\"
	@echo "    -d '{\"model\": \"smollm2-135m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'"
	@echo
	windhover serve --config $(DEMO_KEYS)/appliance.toml

bench: $(DEMO_VQF) $(STAMP)
	windhover bench engine $(DEMO_VQF)

lint: $(STAMP)
	ruff check .
	ruff format --check .
	mypy
	MYPYPATH=firmware/image/setup mypy --explicit-package-bases firmware/image/setup

# verify.html is tested in a real browser where there is one, or one may be installed
browser:
	@command -v chromium > /dev/null && exit 0; \
	as_root=$$(test "$$(id -u)" = 0 || echo "sudo -n"); \
	command -v apt-get > /dev/null && $$as_root true 2> /dev/null \
	  && { echo "installing Debian's chromium for the tests of verify.html"; \
	       $$as_root apt-get install -y --no-install-recommends chromium > /dev/null 2>&1 \
	       || { $$as_root apt-get update > /dev/null 2>&1 \
	            && $$as_root apt-get install -y --no-install-recommends chromium > /dev/null 2>&1; }; } \
	  || echo "no chromium, and none may be installed: verify.html runs under Node, or not at all where there is none"

# the files of firmware/ are tested with the programs that they are for
TOOLS := apparmor:apparmor_parser logrotate:logrotate nftables:nft iproute2:ip nginx-light:nginx systemd:systemd-analyze \
  procps:ps util-linux:unshare

# what makes an image and boots it; QEMU alone is 150 MB, so only `make boot-test` asks for them
BOOT_TOOLS := qemu-system-x86:qemu-system-x86_64 mmdebstrap:mmdebstrap squashfs-tools:mksquashfs \
  cryptsetup-bin:veritysetup cpio:cpio xz-utils:xz e2fsprogs:mke2fs e2fsprogs:debugfs

# Installs what is missing of a list of PACKAGE:PROGRAM. nginx is only wanted as a program: where this
# installs it, it is not started.
define installed
	@export PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin"; wanted=""; \
	for each in $(1); do command -v "$${each#*:}" > /dev/null || wanted="$$wanted $${each%%:*}"; done; \
	test -n "$$wanted" || exit 0; \
	as_root=$$(test "$$(id -u)" = 0 || echo "sudo -n"); \
	command -v apt-get > /dev/null && $$as_root true 2> /dev/null \
	  && { echo "installing Debian's$$wanted for the tests of firmware/"; \
	       test -n "$$(command -v nginx)" || $$as_root ln -sf /dev/null /etc/systemd/system/nginx.service; \
	       export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1; \
	       $$as_root apt-get install -y --no-install-recommends $$wanted > /dev/null 2>&1 \
	       || { $$as_root apt-get update > /dev/null 2>&1 \
	            && $$as_root apt-get install -y --no-install-recommends $$wanted > /dev/null 2>&1; }; } \
	  || echo "not here, and not to be installed:$$wanted; tests of firmware/ that need them say so"
endef

tools:
	$(call installed,$(TOOLS))

boot-tools:
	$(call installed,$(BOOT_TOOLS))

# MANIFEST=FILE is the signed list of its software, which `image` has written before; firmware/README.md
IMAGE ?= dist/image
image: $(STAMP) boot-tools
	firmware/image/build $(IMAGE) $(addprefix --manifest ,$(MANIFEST))

# -s shows the transcript while it grows; WINDHOVER_IMAGE=FOLDER takes an image that is built already
boot-test: $(STAMP) boot-tools
	pytest -s tests/boot

test: $(STAMP) browser tools
	pytest -m "not slow"

test-ci: lint browser tools
	pytest -m "not slow or ci"

test-all: lint browser tools
	pytest

test-aarch64: $(STAMP)
	pytest tests/aarch64

# uv resolves for every platform at once and writes the digests of all files that a release has
lock:
	@test -x .cache/uv/bin/uv || { $(PYTHON) -m venv .cache/uv && .cache/uv/bin/pip install --quiet uv==$(UV_VERSION); }
	.cache/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras \
	  --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

# EXTRAS="he plots" adds these of pyproject.toml, MACHINE=aarch64 is for another processor than this one's
WHEELHOUSE ?= dist/wheelhouse
wheelhouse: $(STAMP)
	@$(BIN)/python -m firmware.wheelhouse $(WHEELHOUSE) $(addprefix --extra ,$(EXTRAS)) $(addprefix --machine ,$(MACHINE))
