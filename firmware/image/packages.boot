# What the kernel and the initrd are taken from; unpacked, and never installed.
linux-image-cloud-amd64
busybox-static
cryptsetup-bin
systemd-boot-efi
