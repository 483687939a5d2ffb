# The files of firmware/, users, units; a part of `build`, which sets the names used here.
step "the system"
put() { install -D -m "${3:-644}" "$checkout/firmware/$1" "$rootfs$2"; }
for unit in windhover.service windhover-check.service windhover-check.timer windhover-governor.service; do
    put "systemd/$unit" "/usr/lib/systemd/system/$unit"
done
put systemd/nginx.conf /etc/systemd/system/nginx.service.d/windhover.conf
put nginx/nginx.conf /etc/nginx/nginx.conf
put nginx/windhover/errors.conf /etc/nginx/windhover/errors.conf
for variant in none optional required; do
    put "nginx/windhover/client-certificates-$variant.conf" "/usr/share/windhover/client-certificates-$variant.conf"
done
put nftables/nftables.conf /etc/nftables.conf
put apparmor/windhover /etc/apparmor.d/windhover
put etc/appliance.toml /usr/share/windhover/appliance.toml
put etc/sysusers.conf /usr/lib/sysusers.d/windhover.conf
put etc/tmpfiles.conf /usr/lib/tmpfiles.d/windhover.conf
put etc/sysctl.conf /etc/sysctl.d/80-windhover.conf
put etc/journald.conf /etc/systemd/journald.conf.d/windhover.conf
put etc/logrotate.conf /etc/logrotate.d/windhover
put boards/windhover-cores /usr/lib/systemd/system-generators/windhover-cores 755
put README.md /usr/share/doc/windhover/README.md
(cd "$here/rootfs" && find . -type f -print0 | tar -c --null -T - --owner=0 --group=0) | tar -x -C "$rootfs"
[ -z "$manifest" ] || install -D -m 644 "$manifest" "$lib/software.cose"

# Numbers of their own, for the data disk outlives this image.
inside systemd-sysusers --inline 'g windhover 901' 'u windhover 901:901 "Windhover"' 'g windhover-socket 902'
inside systemd-sysusers

# What is on the data disk: its folders, as they are when it is formatted, and where they are seen.
data=$rootfs/usr/share/windhover/data
install -d -m 755 "$data" "$data"/{nginx,nftables,network,time,system,log,logrotate,systemd}
install -d -m 700 -o 901 -g 902 "$data"/{state,anchor,cache} && install -d -m 750 -o 901 -g 902 "$data/log/windhover"
install -d -m 750 -o 0 -g 901 "$data"/{etc,srv} && install -d -m 700 "$data/etc/credentials"
install -d -m 700 "$data/nginx" && install -d -m 755 -g 4 "$data/log/nginx"
mkdir -p "$rootfs"/{data,medium,srv/windhover} "$rootfs"/var/lib/{windhover,windhover-anchor,logrotate,nginx,systemd} \
    "$rootfs"/var/cache/windhover "$rootfs"/etc/{windhover,nginx/windhover}
for name in server.crt server.key clients.crt client-certificates.conf; do
    case $name in server.*) target=tls/$name ;; *) target=$name ;; esac
    ln -s "/data/nginx/$target" "$rootfs/etc/nginx/windhover/$name"
done
rm -rf "$rootfs"/etc/{nftables.d,systemd/network,systemd/timesyncd.conf.d}
ln -s /data/nftables "$rootfs/etc/nftables.d"
ln -s /data/network "$rootfs/etc/systemd/network"
ln -s /data/time "$rootfs/etc/systemd/timesyncd.conf.d"
printf '[Time]\nNTP=\nFallbackNTP=\n' > "$rootfs/etc/systemd/timesyncd.conf"
echo windhover > "$rootfs/etc/hostname"
printf '127.0.0.1 localhost windhover\n::1 localhost\n' > "$rootfs/etc/hosts"
ln -sf /usr/share/zoneinfo/UTC "$rootfs/etc/localtime"

rm -rf "$rootfs"/etc/systemd/system/*.wants "$rootfs"/etc/nginx/sites-* "$rootfs/etc/systemd/system/getty.target.wants"
for unit in $(names "$here/enabled"); do
    inside systemctl --quiet enable "$unit"
done
for unit in $(names "$here/masked"); do
    ln -sf /dev/null "$rootfs/etc/systemd/system/$unit"
done
inside systemctl --quiet set-default multi-user.target
# What the command line of the kernel could otherwise ask for: shells, other roots, programs.
for name in systemd-debug-generator systemd-getty-generator systemd-gpt-auto-generator systemd-run-generator \
    systemd-system-update-generator systemd-hibernate-resume-generator systemd-rc-local-generator systemd-sysv-generator; do
    rm -f "$rootfs/usr/lib/systemd/system-generators/$name"
done
# Nobody logs in, and no date says when this was built.
sed -i -E 's/^([^:]+):.*/\1:!*:::::::/' "$rootfs/etc/shadow"
sed -i -E 's#:[^:]*$#:/usr/sbin/nologin#' "$rootfs/etc/passwd"
