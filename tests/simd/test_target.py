"""Which target is chosen for which machine, and what a user sees where there is none."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.convert.convert import convert
from simd import target
from simd.errors import ConfigError, UnsupportedCpuError
from simd.target import PATH_SETTING, PATHS, choose

CHECKOUT = Path(__file__).parents[2]
DATA = CHECKOUT / "tests" / "data" / "convert"
V3 = frozenset(["fpu", "sse2", "avx", "avx2", "f16c", "fma", "bmi1", "bmi2", "movbe"])
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512_vnni", "gfni"}
ARM = frozenset(["fp", "asimd", "asimddp"])


@pytest.mark.parametrize(
    ("machine", "flags", "forced", "path", "cpu_name"),
    [
        ("x86_64", V3, None, "avx2", "x86-64-v3"),
        ("x86_64", V4, None, "avx512", "x86-64-v4"),
        ("x86_64", V4 | {"amx_int8"}, None, "avx512", "x86-64-v4"),
        ("x86_64", V4, "avx512", "avx512", "x86-64-v4"),
        ("x86_64", V4, "avx2", "avx2", "x86-64-v3"),
        ("x86_64", V4, "portable", "portable", "x86-64-v3"),
        ("x86_64", V3, "portable", "portable", "x86-64-v3"),
        ("x86_64", V3, "avx512-emulated", "avx512-emulated", "x86-64-v3"),
        ("x86_64", V4 - {"gfni"}, None, "avx2", "x86-64-v3"),
        ("x86_64", V4 - {"avx512_vnni"}, None, "avx2", "x86-64-v3"),
        ("aarch64", ARM, None, "portable", "generic"),
        ("aarch64", frozenset(), "portable", "portable", "generic"),
        ("aarch64", ARM, "avx512-emulated", "avx512-emulated", "generic"),
    ],
)
def test_the_choice(
    machine: str, flags: frozenset[str], forced: str | None, path: str, cpu_name: str
) -> None:
    chosen = choose(machine, flags, forced)
    assert (chosen.path, chosen.cpu_name) == (path, cpu_name)


def test_targets_name_their_features_whatever_the_cpu_has() -> None:
    more = {"avx512_bf16", "amx_int8", "vaes", "sve2"}
    for machine, flags in (("x86_64", V3), ("x86_64", V4), ("aarch64", ARM)):
        assert choose(machine, flags, None) == choose(machine, flags | more, None)
    assert "avx512vnni" in choose("x86_64", V4, None).cpu_features


def test_what_is_only_compiled_may_be_for_another_cpu_of_the_architecture() -> None:
    for flags in (frozenset[str](), V3, V4):
        for path in ("avx2", "avx512", "portable"):
            assert choose("x86_64", flags, path, is_run=False) == choose("x86_64", V4, path)
    with pytest.raises(UnsupportedCpuError, match="lacks"):
        choose("x86_64", frozenset(), None, is_run=False)
    for machine, path in (("aarch64", "avx2"), ("riscv64", "portable")):
        with pytest.raises(UnsupportedCpuError):
            choose(machine, V4, path, is_run=False)
    with pytest.raises(ConfigError):
        choose("x86_64", V4, "avx", is_run=False)


@pytest.mark.parametrize(
    ("machine", "flags", "forced", "words"),
    [
        ("x86_64", V3 - {"avx2"}, None, "lacks avx2: AVX2 and F16C are needed"),
        ("x86_64", V3 - {"f16c"}, None, "lacks f16c"),
        ("x86_64", V3 - {"avx2", "f16c"}, "portable", "lacks avx2, f16c"),
        ("x86_64", V4 - {"f16c"}, "avx512", "lacks f16c"),
        ("x86_64", frozenset(), None, "avx2"),
        ("x86_64", V3, "avx512", "lacks avx512_vnni, avx512bw"),
        ("x86_64", V4 - {"gfni"}, "avx512", "lacks gfni"),
        ("aarch64", ARM, "avx2", "avx2 needs an x86-64 CPU"),
        ("aarch64", ARM, "avx512", "avx512 needs an x86-64 CPU"),
        ("riscv64", frozenset(), None, "no kernels for riscv64"),
        ("i686", V3, None, "no kernels for i686"),
        ("ppc64le", frozenset(), "portable", "no kernels for ppc64le"),
    ],
)
def test_no_target(machine: str, flags: frozenset[str], forced: str | None, words: str) -> None:
    with pytest.raises(UnsupportedCpuError, match=words):
        choose(machine, flags, forced)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
@pytest.mark.parametrize("forced", ["", "AVX2", "sse", "avx512 "])
def test_unknown_paths(machine: str, forced: str) -> None:
    with pytest.raises(ConfigError, match=", ".join(PATHS)):
        choose(machine, V4, forced)


def test_this_machine_is_what_it_says() -> None:
    assert target.TARGET.path in PATHS
    assert os.environ["NUMBA_CPU_NAME"] == target.TARGET.cpu_name
    assert os.environ["NUMBA_CPU_FEATURES"] == target.TARGET.cpu_features
    numba_config = importlib.import_module("numba").config
    assert target.TARGET.cpu_name == numba_config.CPU_NAME


# What a program sees of the processor is a file; these programs see another one.
PRETEND = """
import pathlib, sys
read = pathlib.Path.read_text
def pretend(self, *args, **options):
    if str(self) == "/proc/cpuinfo":
        return "flags : " + sys.argv[1]
    return read(self, *args, **options)
pathlib.Path.read_text = pretend
"""


def windhover(
    flags: frozenset[str], *arguments: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line on a CPU with these flags."""
    program = PRETEND + "from appliance.cli.main import run; sys.exit(run(sys.argv[2:]))"
    return subprocess.run(
        [sys.executable, "-c", program, " ".join(sorted(flags)), *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env={k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")} | settings,
    )


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target_file = tmp_path_factory.mktemp("weights") / "tiny.vqf"
    convert(DATA / "qwen3_tiny-q8_0.gguf", target_file)
    return target_file


@pytest.mark.parametrize(
    ("flags", "settings", "words"),
    [
        (V3 - {"avx2"}, {}, "this CPU lacks avx2"),
        (V3 - {"f16c"}, {}, "this CPU lacks f16c"),
        (V3, {PATH_SETTING: "avx512"}, "kernel path avx512 is not possible"),
        (V3, {PATH_SETTING: "avx1024"}, "kernel path 'avx1024' is not one of"),
    ],
)
def test_the_command_line_says_it_in_one_line(
    weights: Path, flags: frozenset[str], settings: dict[str, str], words: str
) -> None:
    arguments = ("generate", str(weights), "--dev", "--prompt", "x", "--json")
    result = windhover(flags, *arguments, **settings)
    assert result.returncode == 2
    *announced, line = result.stderr.splitlines()
    assert len(announced) <= 1  # that unsigned weights are admitted
    assert words in line
    assert words in json.loads(result.stdout)["error"]


def test_what_needs_no_kernels_runs_on_any_cpu(weights: Path) -> None:
    for arguments in (("check", str(weights), "--dev"), ("inspect", str(weights)), ("--help",)):
        result = windhover(frozenset(), *arguments)
        assert result.returncode == 0, result.stderr


def copied_packages(folder: Path) -> Path:
    """Copy the packages that have kernels into a folder of their own."""
    for package in ("simd", "crypto", "engine"):
        shutil.copytree(
            CHECKOUT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return folder


def cache_folder(checkout: Path) -> str:
    """Return the cache folder that a process of that checkout would use."""
    program = "import os; from simd import target; print(os.environ['NUMBA_CACHE_DIR'])"
    result = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "WINDHOVER_KERNEL_CACHE": "cache"},
    )
    return result.stdout.strip()


def test_the_cache_folder_names_path_cpu_and_sources(tmp_path: Path) -> None:
    folder = Path(cache_folder(copied_packages(tmp_path)))
    assert folder.parent == Path("cache")
    path, cpu_name, digest = (
        folder.name.rsplit("-", 1)[0],
        target.TARGET.cpu_name,
        folder.name[-16:],
    )
    assert path == f"{target.TARGET.path}-{cpu_name}"
    assert digest == target.kernel_sources_digest()


@pytest.mark.parametrize(
    "changed",
    [
        "simd/code",
        "simd/build",
        "simd/target",
        "crypto/kernels/sm3_lanes",
        "engine/kernels/machine",
        "engine/kernels/linear_integer",
        "engine/kernels/ops",
        "engine/sampling/vectors",
    ],
)
def test_any_change_of_a_kernel_source_changes_the_cache_folder(
    tmp_path: Path, changed: str
) -> None:
    checkout = copied_packages(tmp_path)
    before = cache_folder(checkout)
    source = checkout / f"{changed}.py"
    source.write_text(source.read_text() + "# changed\n")
    after = cache_folder(checkout)
    assert after != before
    source.write_text(source.read_text().removesuffix("# changed\n"))
    assert cache_folder(checkout) == before


def test_all_modules_that_emit_code_are_covered() -> None:
    """Whatever a kernel's module imports of ours lies in the folders of the digest."""
    program = (
        "import json, sys; from engine.kernels import ops, pool; import engine.sampling.kernel\n"
        "ours = ('engine', 'crypto', 'simd')\n"
        "print(json.dumps([n for n in sys.modules if n.partition('.')[0] in ours]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=CHECKOUT
    )
    others = [
        name
        for name in json.loads(result.stdout)
        if not name.startswith(("crypto.kernels", "engine.kernels", "engine.sampling", "simd"))
    ]
    assert set(others) == {"crypto", "engine", "engine.errors"}
