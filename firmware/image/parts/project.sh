# The environment, the application and the set-up; a part of `build`, which sets the names used here.
step "the run-time packages of requirements.lock"
lib=$rootfs/usr/lib/windhover
site=$lib/venv/lib/python3.11/site-packages
mkdir -p "$lib/app"
inside python3.11 -m venv --without-pip /usr/lib/windhover/venv
"$python" "$here/runtime.py" "$checkout/pyproject.toml" "$checkout/requirements.lock" > "$work/runtime.lock"
platforms=()
for minor in $(seq 17 36); do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
"$python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-compile --only-binary :all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none "${platforms[@]}" --platform manylinux2014_x86_64 \
    --platform any --target "$site" -r "$work/runtime.lock" >&2
# pip writes digests of scripts that name its own interpreter; the scripts are not wanted either.
sed -i '/^\(\.\.\/\)*bin\//d' "$site"/*.dist-info/RECORD
rm -rf "$site/bin" "$lib"/venv/bin/[Aa]ctivate* "$lib/venv/pyvenv.cfg.orig" "$site"/*.dist-info/direct_url.json
# Its tests bring private keys of their own.
rm -rf "$site/Cryptodome/SelfTest"
find "$site" -depth -type d -name tests -path '*/n*' ! -path '*/numba/core/*' -exec rm -r {} +
echo /usr/lib/windhover/app > "$site/windhover.pth"
for package in appliance crypto engine he_chain simd verifier; do
    (cd "$checkout" && find "$package" -type f ! -name '*.pyc' -print0 | tar -c --null -T - --owner=0 --group=0) \
        | tar -x -C "$lib/app" --no-same-permissions
done
mkdir "$lib/setup"
cp "$here"/setup/*.py "$lib/setup/"
cp "$checkout/firmware/boards/boards.table" "$lib/"
chmod -R u=rwX,go=rX "$lib"

step "bytecode"
find "$rootfs/usr/lib/python3.11" "$rootfs/usr/lib/python3" "$lib" -depth -name __pycache__ -exec rm -r {} + 2> /dev/null || true
stamp "$rootfs/usr/lib/python3.11" "$lib"
inside python3.11 -m compileall -q -j 1 --invalidation-mode unchecked-hash /usr/lib/python3.11 /usr/lib/windhover/venv \
    /usr/lib/windhover/app /usr/lib/windhover/setup >&2 || die "a file does not compile"
