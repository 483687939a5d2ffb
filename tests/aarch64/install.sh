#!/usr/bin/env bash
# Lay out what emulated.sh runs: QEMU's user-mode emulators and an aarch64 CPython 3.11 with the wheels the engine needs.
#
#   usage: install.sh FOLDER      FOLDER is filled once, and again when this file or the lock changes
#   exit:  0 ready, 69 it cannot be had here (the reason is on stderr), anything else is a failure
#
# The host's packages stay as they are: apt works on a state of its own inside FOLDER, which knows both architectures,
# and packages are unpacked, not installed. The host's Debian sources and keys are used, so signatures are checked;
# wheels are checked against the digests of requirements.lock.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
folder=$(realpath -m "$1")
python=$checkout/.venv/bin/python

emulators="qemu-user-static"
libraries="python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1 libstdc++6 zlib1g
  libexpat1 libssl3 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 libreadline8 libcrypt1"
wheels="cbor2 cffi click cryptography jinja2 llvmlite markupsafe numba numpy pycparser safetensors tokenizers
  typing-extensions"

unavailable() { echo "$1" >&2; exit 69; }

# the blocks of the lock (name, version, digests) of the packages in $wheels
locked() { awk -v names=" $(echo $wheels) " '/^[a-z]/ { split($1, part, "=="); keep = index(names, " " part[1] " ") }
  keep && !/^ +#/' "$checkout/requirements.lock"; }

mkdir -p "$folder"
exec 9>"$folder/install.lock"
flock 9
wanted=$( (cat "${BASH_SOURCE[0]}"; locked) | sha256sum | cut -d' ' -f1)
[ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || exit 0

[ "$(uname -m)" = x86_64 ] || unavailable "the host is not an x86-64 machine"
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || unavailable "the host has no apt-get and dpkg-deb"
grep -q '^VERSION_CODENAME=bookworm$' /etc/os-release || unavailable "the host is not Debian 12"

stage=$folder/stage
rm -rf "$folder/installed" "$folder/bin" "$folder/arm" "$folder/site" "$stage"
mkdir -p "$stage"/apt/{state/lists/partial,cache/archives/partial,sources} "$stage"/{emulators,libraries,wheels}
touch "$stage/apt/status"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  if [ -f "$file" ] && grep -qE '(^|[[:space:]])bookworm([[:space:]]|$)' "$file"; then cp "$file" "$stage/apt/sources/"; fi
done

private_apt() {
  apt-get -qq -o Dir::State="$stage/apt/state" -o Dir::State::status="$stage/apt/status" -o Dir::Cache="$stage/apt/cache" \
    -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$stage/apt/sources" -o APT::Architecture=amd64 \
    -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= -o Acquire::Languages=none "$@"
}
private_apt -o APT::Update::Error-Mode=any update >/dev/null || unavailable "Debian's package index cannot be reached"
(cd "$stage/emulators" && private_apt download $(printf '%s:amd64 ' $emulators) >/dev/null)
(cd "$stage/libraries" && private_apt download $(printf '%s:arm64 ' $libraries) >/dev/null)

for package in "$stage"/emulators/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$stage/emulators" ./usr/bin/qemu-aarch64-static ./usr/bin/qemu-x86_64-static
done
for package in "$stage"/libraries/*.deb; do dpkg-deb -x "$package" "$folder/arm"; done
mv "$stage/emulators/usr/bin" "$folder/bin"

locked >"$stage/wheels.lock"
platforms=$(printf -- '--platform manylinux_2_%s_aarch64 ' 17 24 26 27 28 31 34)
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
  --python-version 3.11 --implementation cp --abi cp311 $platforms --platform manylinux2014_aarch64 \
  --dest "$stage/wheels" --requirement "$stage/wheels.lock"
for wheel in "$stage"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$folder/site"; done

rm -rf "$stage"
echo "$wanted" >"$folder/installed"
