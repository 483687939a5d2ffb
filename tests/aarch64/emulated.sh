#!/usr/bin/env bash
# Run a Python program of this checkout on an emulated processor.
#
#   usage: emulated.sh CPU FILE [ARGUMENT ...]
#
# CPU is a model of qemu-aarch64 (cortex-a57 is a plain ARMv8.0, cortex-a76 has the dot product) or Haswell-noTSX, an
# x86-64 with AVX2 and without AVX-512. ARM programs run on the unpacked interpreter, x86-64 programs on that of .venv.
# /proc/cpuinfo is the host's under emulation: a program that looks there has to be told its kernel path. Programs that
# it starts itself are not emulated.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
folder=${WINDHOVER_EMULATION:-$checkout/.cache/emulation}
cpu=$1
shift
case $cpu in
  Haswell-noTSX)
    export PYTHONPATH=$checkout
    # without the features that an operating system alone uses and QEMU warns that it lacks
    exec "$folder/bin/qemu-x86_64-static" -cpu "$cpu,-pcid,-x2apic,-tsc-deadline,-invpcid" "$checkout/.venv/bin/python" "$@"
    ;;
  *)
    export PYTHONPATH=$folder/site:$checkout
    exec "$folder/bin/qemu-aarch64-static" -cpu "$cpu" -L "$folder/arm" "$folder/arm/usr/bin/python3.11" "$@"
    ;;
esac
