# What the image does not need is removed; a part of `build`, which sets the names used here.
step "what is not needed"
(
    cd "$rootfs"
    # licences first: the list of what is in the image says which each package has
    "$python" "$here/licences.py" "$rootfs" "$(names "$here/packages.dropped" | paste -sd,)" > "$work/packages.txt"
    for name in $(names "$here/packages.dropped"); do
        for list in var/lib/dpkg/info/"$name".list var/lib/dpkg/info/"$name":"$arch".list; do
            [ -f "$list" ] || continue
            sed 's#^/##' "$list" | while read -r path; do
                if [ -n "$path" ] && { [ -f "$path" ] || [ -L "$path" ]; } && ! [ -d "$path" ]; then rm -f "$path"; fi
            done
        done
    done
    rm -rf usr/share/{doc-base,man,info,locale,i18n,lintian,bash-completion,zsh,bug,perl5,perl,debconf,pixmaps,menu,nginx} \
        usr/lib/{locale,python3,apt,dpkg,pcrlock.d} usr/share/systemd/kbd-model-map usr/lib/python3.11/{test,idlelib,lib2to3,ensurepip,pydoc_data} \
        usr/lib/x86_64-linux-gnu/{perl-base,perl,gconv} etc/{apt,dpkg,cron.d,cron.daily,init.d,rc?.d,perl,skel,default/grub.d,machine-id} \
        etc/{passwd-,group-,shadow-,gshadow-,subuid,subgid,subuid-,subgid-,.pwd.lock} etc/ca-certificates{,.conf} etc/ssl/{certs,private} usr/lib/udev/hwdb.d etc/udev/hwdb.bin \
        boot media mnt opt home root tmp run var/tmp
    find usr/share/doc -type f ! -name copyright ! -path '*/windhover/*' -delete
    find usr/share/doc -type d -empty -delete
    find var -mindepth 1 -maxdepth 1 ! -name lib ! -name cache -exec rm -r {} +
    find var/cache -mindepth 1 -maxdepth 1 ! -name windhover -exec rm -r {} +
    find var/lib -mindepth 1 -maxdepth 1 ! -name windhover ! -name windhover-anchor ! -name logrotate ! -name nginx ! -name systemd -exec rm -r {} +
    find var/lib/systemd -mindepth 1 -exec rm -rf {} + 2> /dev/null || true
    install -d -m 755 var/log var/tmp run mnt tmp data medium && install -d -m 700 root
    ln -s /run var/run && ln -s /run/lock var/lock
    : > etc/machine-id && chmod 444 etc/machine-id
    find etc/apparmor.d -mindepth 1 -maxdepth 1 ! -name windhover ! -name abi ! -name abstractions ! -name tunables ! -name local -exec rm -r {} +
    rm -rf proc sys && install -d -m 755 proc sys
    find . -xdev -perm /6000 -type f -exec chmod a-s {} +
    rm -f usr/bin/{su,runuser,chsh,chfn,newgrp,sg,script,scriptlive,wall,write,mesg} usr/sbin/{sulogin,agetty,chroot,switch_root,pivot_root,nologin}
    find . -xtype l -path './usr/bin/*' -delete
)

# The list behind the software digest, which the release signer signs: of what is left.
step "the list of the software"
inside windhover software list --kernels /usr/lib/windhover/kernels --out /usr/lib/windhover/software.list >&2
cp "$lib/software.list" "$out/software.list"
# The initrd moves what the kernel makes to this place.
rm -rf "$rootfs/dev" && install -d -m 755 "$rootfs/dev"
