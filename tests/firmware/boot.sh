#!/bin/sh
# Boots systemd over a copy-on-write view of this machine, in namespaces of its own.
# Arguments: folder for it, checkout, interpreter's prefix, what systemd starts.
# In FOLDER lie `files`, which are laid over the root, and `run`, which is /run in there.
set -eu
folder=$1 checkout=$2 prefix=$3 goal=$4
root=$folder/root

# What may be forbidden to whoever tests; all else has to work.
mount -t tmpfs -o mode=0755 tmpfs "$folder/upper" || exit 77
mkdir "$folder/upper/new" "$folder/upper/work"
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper/new,workdir=$folder/upper/work" overlay "$root" || exit 77
mkdir -p "$root/usr/lib/windhover/app/.venv" "$root/usr/lib/windhover/python"
# A copy, and its own bytecode: what tests left in the checkout may be unreadable for the service.
tar -C "$checkout" --exclude=__pycache__ -c appliance crypto engine he_chain simd verifier \
  | tar -C "$root/usr/lib/windhover/app" --no-same-owner -x
mount --bind "$checkout/.venv" "$root/usr/lib/windhover/app/.venv"
mount --bind "$prefix" "$root/usr/lib/windhover/python"
mount --bind "$folder/run" "$root/run"
cp -a "$folder/files/." "$root/"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys" || exit 77
mkdir -p "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" || exit 77
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=0755 tmpfs "$root/dev"
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
  name=${node%%:*} numbers=${node#*:}
  mknod -m 666 "$root/dev/$name" c "${numbers%:*}" "${numbers#*:}"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

ip link set lo up
systemd-sysusers --root="$root"
systemd-tmpfiles --root="$root" --create --prefix=/etc/windhover --prefix=/srv --prefix=/var/lib/windhover \
  --prefix=/var/lib/windhover-anchor --prefix=/var/log/windhover --prefix=/var/cache/windhover
chroot "$root" /bin/sh /usr/lib/windhover/first.sh
# A root that is a mount of its own, and shared as systemd expects it; nothing of the old one is left.
mkdir "$root/old"
cd "$root"
pivot_root . old
umount -l /old
mount --make-rshared /
exec /usr/bin/env -i container=windhover-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit="$goal" --log-target=journal --show-status=no
