#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever the tree includes, or finds with CMake, is provided by a package that packages.txt names."""

import pathlib
import re
import sys

import common
import headers

# Include prefix → packages. The longest prefix counts; () means that a compiler or the C library brings it.
INCLUDES = {
    "boost/context/": ("libboost-context-dev",),
    "boost/fiber/": ("libboost-fiber-dev",),
    "boost/": ("libcgal-dev",),  # depends on libboost-dev
    "dwarf.h": ("libdw-dev",),
    "elfutils/": ("libdw-dev",),
    "hwloc.h": ("libhwloc-dev",),
    "hwloc/": ("libhwloc-dev",),
    "spdlog/": ("libspdlog-dev",),
    "fmt/": ("libfmt-dev",),
    "nlohmann/": ("nlohmann-json3-dev",),
    "CLI/": ("libcli11-dev",),
    "mpi.h": ("libopenmpi-dev", "libmpich-dev"),
    "CGAL/": ("libcgal-dev",),
    "gmp.h": ("libgmp-dev",),
    "mpfr.h": ("libmpfr-dev",),
    "cairo.h": ("libcairo2-dev",),
    "cairo/": ("libcairo2-dev",),
    "webp/": ("libwebp-dev",),
    "gtest/": ("libgtest-dev",),
    "gmock/": ("libgmock-dev",),
    "benchmark/": ("libbenchmark-dev",),
    "tbb/": ("libtbb-dev",),
    "oneapi/tbb": ("libtbb-dev",),
    "starpu": ("libstarpu-dev",),
    "zstd.h": ("libzstd-dev",),
    "zfp.h": ("libzfp-dev",),
    "fftw3.h": ("libfftw3-dev",),
    "fftw3-mpi.h": ("libfftw3-mpi-dev",),
    "zlib.h": ("zlib1g-dev",),
    "xxhash.h": ("libxxhash-dev",),
    "metis.h": ("libmetis-dev",),
    "png.h": ("libpng-dev",),
    "cereal/": ("libcereal-dev",),
    "valgrind/": ("valgrind",),
    "CL/": ("ocl-icd-opencl-dev",),  # depends on opencl-c-headers
    "cblas.h": ("libopenblas-dev",),
    "cxxabi.h": (), "omp.h": (), "sanitizer/": (), "immintrin.h": (), "x86intrin.h": (), "xmmintrin.h": (),
    "emmintrin.h": (), "cpuid.h": (), "arm_acle.h": (), "ext/": (),
    "sys/": (), "linux/": (), "asm/": (), "arpa/": (), "net/": (), "netinet/": (), "bits/": (),
}
C_LIBRARY = set("""aio.h dirent.h dlfcn.h elf.h execinfo.h fcntl.h fnmatch.h ftw.h getopt.h glob.h grp.h ifaddrs.h langinfo.h
libgen.h link.h malloc.h mqueue.h netdb.h poll.h pthread.h pwd.h sched.h semaphore.h spawn.h strings.h syslog.h termios.h
ucontext.h unistd.h utime.h wordexp.h pty.h features.h err.h endian.h byteswap.h""".split())
# find_package() name → packages.
CMAKE_PACKAGES = {
    "Boost": ("libboost-context-dev",), "spdlog": ("libspdlog-dev",), "fmt": ("libfmt-dev",), "CGAL": ("libcgal-dev",),
    "nlohmann_json": ("nlohmann-json3-dev",), "CLI11": ("libcli11-dev",), "GTest": ("libgtest-dev", "libgmock-dev"),
    "benchmark": ("libbenchmark-dev",), "TBB": ("libtbb-dev",), "PkgConfig": ("pkg-config",), "Python3": ("python3",),
    "GMP": ("libgmp-dev",), "MPFR": ("libmpfr-dev",), "MPI": ("libopenmpi-dev", "libmpich-dev"), "OpenMP": (), "Threads": (),
    "tern": (),
}
PKG_CONFIG = {
    "hwloc": ("libhwloc-dev",), "libdw": ("libdw-dev",), "cairo": ("libcairo2-dev",), "libwebp": ("libwebp-dev",),
    "libwebpmux": ("libwebp-dev",), "ompi": ("libopenmpi-dev",), "ompi-c": ("libopenmpi-dev",),
    "ompi-cxx": ("libopenmpi-dev",), "mpich": ("libmpich-dev",), "gmp": ("libgmp-dev",), "mpfr": ("libmpfr-dev",),
    "libpng": ("libpng-dev",), "openblas": ("libopenblas-dev",), "starpu-1.3": ("libstarpu-dev",), "starpumpi-1.3": ("libstarpu-dev",),
    "OpenCL": ("ocl-icd-opencl-dev",), "tern": (),
}
RULE = "packages"


def packages(root: pathlib.Path) -> set[str]:
    lines = (line.split() for line in common.text(root, "packages.txt").splitlines())
    return {words[1] for words in lines if len(words) > 1 and not words[0].startswith("#")}


def check_packages_file(root: pathlib.Path) -> list[common.Finding]:
    findings, seen = [], set()
    for number, line in enumerate(common.text(root, "packages.txt").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not (match := re.fullmatch(r"(build|run|test|bench)\s+([a-z0-9][a-z0-9+.-]+)\s+#\s+\S.*", line)):
            findings.append(common.Finding("packages.txt", number, RULE, "not of the form: stage package # why"))
        elif match.group(2) in seen:
            findings.append(common.Finding("packages.txt", number, RULE, f"{match.group(2)} is named twice"))
        else:
            seen.add(match.group(2))
    return findings


def provider(name: str) -> tuple[str, ...] | None:
    if name in headers.STANDARD or name in headers.STANDARD_C or name in C_LIBRARY:
        return ()
    prefixes = [prefix for prefix in INCLUDES if name.startswith(prefix)]
    return INCLUDES[max(prefixes, key=len)] if prefixes else None


def check(root: pathlib.Path) -> list[common.Finding]:
    named = packages(root)
    findings = check_packages_file(root)
    everything = common.files(root)
    tree = set(everything)
    beside = {name.rsplit("/", 1)[-1] for name in everything}

    def need(name: str, line: int, what: str, wanted: tuple[str, ...] | None) -> None:
        if wanted is None:
            findings.append(common.Finding(name, line, RULE, f"{what}: no idea which package brings it; add it to "
                                           "packages.txt and to tools/lint/packages_check.py"))
        for package in wanted or ():
            if package not in named:
                findings.append(common.Finding(name, line, RULE, f"{what} needs {package}, which packages.txt does not name"))

    for name in everything:
        if name.endswith(common.SOURCES):
            for include in common.includes(common.text(root, name)):
                target = common.resolve(root, name, include)
                # Applications name headers from their own folder; generated ones stand in the build folder as *.inc.
                if target in tree or target.startswith("tern/") or (include.quoted and (
                        include.name.rsplit("/", 1)[-1] in beside or include.name.endswith(".inc"))):
                    continue
                need(name, include.line, f"<{include.name}>", provider(include.name))
        elif name.endswith(("CMakeLists.txt", ".cmake")):
            for number, line in enumerate(common.text(root, name).splitlines(), 1):
                line = line.split("#")[0]
                for match in re.finditer(r"\bfind_package\s*\(\s*([A-Za-z0-9_]+)", line):
                    need(name, number, f"find_package({match.group(1)})", CMAKE_PACKAGES.get(match.group(1)))
                for match in re.finditer(r"\bpkg_(?:check|search)_module[s]?\s*\(\s*\w+([^)]*)", line):
                    for word in match.group(1).split():
                        module = re.split(r"[<>=]", word)[0]
                        if module and not module.isupper() and "$" not in module:
                            need(name, number, f"pkg-config {module}", PKG_CONFIG.get(module))
    return findings


if __name__ == "__main__":
    sys.exit(common.main(__doc__, check))
