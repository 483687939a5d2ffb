# What Debian gave, compared with packages.lock; a part of `build`, which sets the names used here.
versions() { # FOLDER: name, version of each package in it
    awk '/^Package: /{p=$2} /^Version: /{print p, $2}' "$1/var/lib/dpkg/status" | sort
}
{
    versions "$rootfs" | sed 's/$/ root/'
    # what was only unpacked says its version at the top of its changelog
    names "$here/packages.boot" | sed "s/^linux-image-cloud-amd64$/$kernel/" | while read -r name; do
        zcat "$boot/usr/share/doc/$name"/changelog*.gz | sed -n "1s/^[^(]*(\([^)]*\)).*/$name \1 boot/p"
    done
} > "$work/versions"
if [ -n "$lock" ]; then
    cp "$work/versions" "$here/packages.lock"
elif [ "$kernel" = linux-image-cloud-amd64 ]; then
    diff -u "$here/packages.lock" "$work/versions" >&2 \
        || die "Debian has other versions than packages.lock: look at them, then build with --lock, with a --mirror that has these, or without what is kept in $cache"
fi
