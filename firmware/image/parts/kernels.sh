# Kernels of this version, compiled for each target; a part of `build`, which sets the names used here.
stamp "$rootfs/usr/lib/python3.11" "$lib"
key=$( (cd "$rootfs" && find usr/lib/windhover/app/{crypto,engine,simd} usr/lib/windhover/venv usr/bin/python3.11 -type f ! -name '*.pyc' -print0 \
    | sort -z | xargs -0 sha256sum; echo "$targets $SOURCE_DATE_EPOCH") | sha256sum | cut -c1-16)
kept=$cache/kernels-$key.tar
if [ -n "$use_cache" ] && [ -f "$kept" ]; then
    tar -xf "$kept" -C "$lib"
else
    step "the kernels, for $targets"
    options=()
    for target in ${targets//,/ }; do options+=(--target "$target"); done
    inside windhover compile-cache /usr/lib/windhover/kernels "${options[@]}" >&2
    tar -cf "$kept.new" -C "$lib" --sort=name --owner=0 --group=0 kernels
    mv "$kept.new" "$kept"
fi
