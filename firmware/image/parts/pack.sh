# Kernel, initrd, root and its hash tree; a part of `build`, which sets the names used here.
version=$(ls "$boot/lib/modules")
step "the kernel $version and its initrd"
cp "$boot/boot/vmlinuz-$version" "$out/vmlinuz"
modules=$rootfs/usr/lib/modules
mkdir -p "$modules"
cp -r "$boot/lib/modules/$version" "$modules/"
rm -rf "$modules/$version"/kernel/{sound,arch/x86/kvm,virt,drivers/{infiniband,comedi,target,media,gpu,staging,bluetooth,isdn,accessibility,iio,net/wireless},net/{bluetooth,wireless,mac80211,sctp,dccp,tipc,rds,nfc,can,ax25,netrom,rose,appletalk,atm,batman-adv,6lowpan,ieee802154,mac802154}} \
    "$modules/$version"/kernel/fs/{btrfs,xfs,ocfs2,gfs2,f2fs,jfs,reiserfs,nilfs2,cifs,smb,nfs,nfsd,ceph,coda,afs,9p,ubifs,jffs2,orangefs,dlm,udf,hfs,hfsplus,ufs,minix,sysv,qnx4,qnx6,befs,bfs,efs,affs,adfs,exfat,ntfs,ntfs3,erofs,romfs,cramfs,freevxfs,omfs,hpfs,ksmbd,lockd,fscache,cachefiles,netfs,zonefs}
# Compressed once, by the file system; and the initrd reads them as they are.
find "$modules/$version" -name '*.ko.xz' -exec xz -d {} +
inside depmod "$version"
rm -f "$modules/$version"/{build,source}

initrd=$work/initrd
mkdir -p "$initrd"/{bin,dev,modules,lib}
cp "$here/initrd/init" "$initrd/init"
cp "$boot/bin/busybox" "$initrd/bin/busybox"
cp "$boot/sbin/veritysetup" "$initrd/bin/veritysetup"
# Everything that the dynamic linker takes in the folder the packages were unpacked to.
linker=/lib64/ld-linux-x86-64.so.2
chroot "$boot" "$linker" --list /sbin/veritysetup | sed -nE 's/^.*(=> |\t)(\/[^ ]+) .*/\2/p' | sort -u | while read -r library; do
    install -D -m 755 "$boot$library" "$initrd$library"
done
: > "$initrd/modules/list"
for module in $(names "$here/modules"); do
    # nothing to load where it is built into the kernel, or not made for it
    inside modprobe -S "$version" --show-depends "$module" 2> /dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p' || true
done | awk '!seen[$0]++' | while read -r path; do
    cp "$rootfs$path" "$initrd/modules/"
    basename "$path" >> "$initrd/modules/list"
done
grep -q '^dm-verity' "$initrd/modules/list" || die "this kernel has no dm-verity"
stamp "$initrd"
(cd "$initrd" && find . -print0 | sort -z | cpio --null --create --format=newc --reproducible --owner=0:0 --quiet) | gzip -n -9 > "$out/initrd.img"

step "the root, and its hash tree"
stamp "$rootfs"
rm -f "$work/root.img"
env -u SOURCE_DATE_EPOCH mksquashfs "$rootfs" "$work/root.img" -comp zstd -Xcompression-level 9 -b 131072 -noappend -no-exports -no-xattrs -no-progress -quiet \
    -all-time "$SOURCE_DATE_EPOCH" -mkfs-time "$SOURCE_DATE_EPOCH" -processors 2 >&2
digest=$(sha256sum < "$work/root.img" | cut -d' ' -f1)
offset=$(( ($(stat -c %s "$work/root.img") + 4095) / 4096 * 4096 ))
truncate -s "$offset" "$work/root.img"
# Salt and name of the tree are taken from what it covers, so that the same files have the same root hash.
uuid=$(echo "$digest" | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-4\3-8\4-\5/')
veritysetup format "$work/root.img" "$work/root.img" --hash-offset="$offset" --data-blocks=$((offset / 4096)) --salt="$digest" --uuid="$uuid" \
    | sed -n "s/^Root hash:[[:space:]]*//p" > "$out/roothash"
grep -qE '^[0-9a-f]{64}$' "$out/roothash" || die "veritysetup gave no root hash"
mv "$work/root.img" "$out/root.img"
echo "windhover.roothash=$(cat "$out/roothash") windhover.verity=$offset $(names "$here/cmdline" | paste -sd' ')" > "$out/cmdline"
mv "$work/packages.txt" "$out/packages.txt"
(
    cd "$out" && stat -c '%s %n' root.img vmlinuz initrd.img
    echo
    cd "$rootfs" && du -xk --max-depth=4 . | sort -rn | head -40
) > "$out/sizes.txt"

# One file of the three for UEFI, which a key of the operator can sign.
printf '%s' "$(cat "$out/cmdline")" > "$work/cmdline"
"$python" "$here/uki.py" "$boot/usr/lib/systemd/boot/efi/linuxx64.efi.stub" "$out/windhover.efi" \
    .osrel="$rootfs/usr/lib/os-release" .cmdline="$work/cmdline" .initrd="$out/initrd.img" .linux="$out/vmlinuz"
