#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh FOLDER BUILD: installs BUILD (or, for the word `static`, a static build made here), moves it elsewhere, and
# builds and runs programs against it, outside the tree. FOLDER is where this script and its programs lie.
set -euo pipefail
programs=$(cd -- "$1" && pwd)
build=$2
cmake=${CMAKE_COMMAND:-cmake}
jobs=$(nproc)

tmp=$(mktemp -d "${TMPDIR:-/tmp}/tern-install.XXXXXX")
trap 'rm -rf -- "$tmp"' EXIT
fail() { printf 'install test: %s\n' "$*" >&2; exit 1; }
# quietly LOG COMMAND…: its output only if it fails.
quietly() {
  local log=$tmp/$1.log
  shift
  "$@" >"$log" 2>&1 || { cat -- "$log" >&2; fail "failed: $*"; }
}

if [[ $build == static ]]; then
  build=$tmp/static
  quietly configure-static "$cmake" -S "$programs/../.." -B "$build" -G Ninja -DBUILD_SHARED_LIBS=OFF \
    -DTERN_BUILD_TESTS=OFF -DTERN_BUILD_APPS=OFF -DTERN_BUILD_BENCH=OFF -DTERN_BUILD_EXAMPLES=OFF
  quietly build-static "$cmake" --build "$build" --parallel "$jobs"
fi
[[ -f $build/CMakeCache.txt ]] || fail "$build is no build folder"

# Installed in one place, used from another: nothing installed may remember where it was.
quietly install "$cmake" --install "$build" --prefix "$tmp/first"
mkdir -p "$tmp/elsewhere"
mv -- "$tmp/first" "$tmp/elsewhere/tern"
prefix=$tmp/elsewhere/tern
libdir=$(dirname -- "$(find "$prefix" -path '*/pkgconfig/tern.pc' | head -n 1)")/..
libdir=$(realpath -- "$libdir")
for remembered in "$tmp/first" "$(realpath -- "$build")"; do
  if grep -rlF -- "$remembered" "$libdir/cmake" "$libdir/pkgconfig"; then fail "the files above name $remembered"; fi
done

# Ranks must not see the environment in which this test is run.
for variable in $(compgen -e | grep -E '^(TERN_|OMPI_|PMIX_|PMI_|MPI)' || true); do unset "$variable"; done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid it, and Open MPI says so on each run
# A static program has no library beside which the plug-ins could lie.
if [[ $2 == static ]]; then export TERN_PLUGIN_DIR=$libdir/tern; fi

expected=$'rank 0 says 1\nrank 1 says 4'
# says WHAT COMMAND…: standard output is what the first program prints with two ranks.
says() {
  local what=$1 output
  shift
  output=$(timeout 60 "$@" 2>"$tmp/stderr") || { cat -- "$tmp/stderr" >&2; fail "$what: ended with code $?"; }
  [[ $output == "$expected" ]] || { cat -- "$tmp/stderr" >&2; fail "$what: printed '$output'"; }
  echo "ok   $what"
}
run_everywhere() { # WHAT PROGRAM
  says "$1, 2 ranks in one process" env TERN_RANKS=2 "$2"
  local launcher
  for launcher in mpirun.openmpi mpirun.mpich; do
    if command -v "$launcher" >/dev/null; then
      says "$1, $launcher -n 2" "$launcher" -n 2 "$2"
    else
      echo "skip $1, $launcher: not here"
    fi
  done
}

# has_all_options WHAT PROGRAM: those that README and docs name, in a program that uses messages alone.
has_all_options() {
  timeout 60 python3 "$programs/../job/options/documented.py" "$2" "$programs/../.." >"$tmp/options.log" ||
    { cat -- "$tmp/options.log" >&2; fail "$1: options are missing"; }
  [[ $(timeout 60 "$2" --tern-log-level=warning --tern-balance=diffusion:limit=2) == 49 ]] || fail "$1: cannot be balanced"
  echo "ok   $1: $(tail -n 1 -- "$tmp/options.log")"
}

cp -r -- "$programs" "$tmp/programs" # outside the tree: nothing of it may be found by chance
cp -- "$programs/../job/options/messages_only.cpp" "$tmp/programs"
compilers=(g++)
if command -v clang++-19 >/dev/null; then compilers+=(clang++-19); else echo 'skip clang++-19: not here'; fi
# All programs, those of the compilers beside each other: to configure one takes a second in which one CPU works.
build_programs() { # COMPILER
  local program dir target
  for program in everything one_layer policy kernels; do
    dir=$tmp/build-$1-$program
    quietly "configure-$1-$program" "$cmake" -S "$tmp/programs/$program" -B "$dir" -G Ninja \
      -DCMAKE_CXX_COMPILER="$1" -DCMAKE_PREFIX_PATH="$prefix"
    target=()
    if [[ $program == kernels ]]; then target=(--target good); fi # others must not compile
    quietly "build-$1-$program" "$cmake" --build "$dir" --parallel "$jobs" "${target[@]}"
  done
}
building=()
for compiler in "${compilers[@]}"; do
  build_programs "$compiler" &
  building+=($!)
done
for process in "${building[@]}"; do wait "$process" || exit 1; done # it has said what failed
for compiler in "${compilers[@]}"; do
  run_everywhere "find_package(tern), $compiler" "$tmp/build-$compiler-everything/app"
  has_all_options "find_package(tern), $compiler" "$tmp/build-$compiler-everything/messages"
  grep -q 'CMAKE_BUILD_TYPE is not set' "$tmp/configure-$compiler-everything.log" ||
    fail 'a project without optimization is not told of it'
  output=$(timeout 60 "$tmp/build-$compiler-one_layer/app") || fail "COMPONENTS task, $compiler: ended with code $?"
  [[ $output == 42 ]] || fail "COMPONENTS task, $compiler: printed '$output'"
  if ldd "$tmp/build-$compiler-one_layer/app" 2>/dev/null | grep -E 'libtern_(net|mobile)'; then
    fail 'a program that uses tern::task alone links more of Tern'
  fi
  echo "ok   find_package(tern COMPONENTS task), $compiler"
done

# A policy outside the tree is found by its name. Simulated, so that it is sure that a rank becomes idle.
for compiler in "${compilers[@]}"; do
  dir=$tmp/build-$compiler-policy
  output=$(TERN_SIM=ranks=3,workers=2 timeout 60 "$dir/balanced" --tern-balance=to-neighbour:most=2 2>"$tmp/stderr") ||
    { cat -- "$tmp/stderr" >&2; fail "a policy outside the tree, $compiler: ended with code $?"; }
  [[ $output == '200 ran, policy to-neighbour:most=2, some elsewhere' ]] ||
    fail "a policy outside the tree, $compiler: printed '$output'"
  if timeout 60 "$dir/balanced" --tern-balance=to-neighbour:mots=2 >"$tmp/wrong" 2>&1; then
    fail "a policy outside the tree, $compiler: a parameter that it does not have is accepted"
  fi
  grep -qF 'policy to-neighbour has no parameter "mots"; did you mean most?' "$tmp/wrong" ||
    { cat -- "$tmp/wrong" >&2; fail "a policy outside the tree, $compiler: a wrong parameter is not named"; }
  echo "ok   a policy outside the tree, $compiler"
done

export TERN_HETERO_CACHE=$tmp/cache TERN_HETERO_MODELS=$tmp/models
# Kernels are compiled for devices when a program is built; on the host their accesses are checked when they are run.
for compiler in "${compilers[@]}"; do
  dir=$tmp/build-$compiler-kernels
  "$cmake" --build "$dir" --target good | grep -q 'no work to do' || fail 'kernels that have not changed are checked again'
  [[ $(timeout 60 "$dir/good" --tern-hetero-checked 2>"$tmp/stderr") == 7 ]] || fail "checked kernels, $compiler: a right one fails"
  if timeout 60 "$dir/good" beyond --tern-hetero-checked >"$tmp/beyond" 2>&1; then
    fail "checked kernels, $compiler: an access beyond an object passes"
  fi
  grep -qF "kernels/good.cpp:10): item (99, 0, 0) in group (" "$tmp/beyond" &&
    grep -qF ' reads x[100] beyond hetero_object<int> of 100' "$tmp/beyond" ||
    { cat -- "$tmp/beyond" >&2; fail "checked kernels, $compiler: an access beyond an object is not told of"; }
  echo "ok   --tern-hetero-checked, $compiler"
  if ! "$prefix/bin/tern" kernels check "$tmp/programs/kernels/good.cpp" | grep -q 'opencl  ok'; then
    echo "skip tern_check_kernels, $compiler: nothing here compiles OpenCL"
    continue
  fi
  for target in wrong:wrong.cpp:7: in_header:wrong.hpp:7:; do
    if "$cmake" --build "$dir" --target "${target%%:*}" >"$tmp/wrong" 2>&1; then
      fail "tern_check_kernels(${target%%:*}), $compiler: the build does not fail"
    fi
    grep -qF "kernels/${target#*:}" "$tmp/wrong" && grep -q 'do not compile for' "$tmp/wrong" ||
      { cat -- "$tmp/wrong" >&2; fail "tern_check_kernels(${target%%:*}), $compiler: the build does not say why"; }
  done
  echo "ok   tern_check_kernels, $compiler"
done
# PTX is made when a program is built, by clang; what only NVRTC has is told.
if command -v clang-19 >/dev/null || command -v clang >/dev/null; then
  dir=$tmp/build-g++-kernels
  "$cmake" --build "$dir" --target with_ptx >"$tmp/ptx" 2>&1 || { cat -- "$tmp/ptx" >&2; fail 'tern_device_code: the build fails'; }
  grep -qF "the kernels 'only_nvrtc' have no PTX in the program, as they call erf, which only NVRTC has" "$tmp/ptx" ||
    { cat -- "$tmp/ptx" >&2; fail 'tern_device_code: a function that is missing is not told'; }
  grep -qa '.visible .entry tern_kernel_twice' "$dir/with_ptx" || fail 'tern_device_code: the program has no PTX'
  "$cmake" --build "$dir" --target with_ptx | grep -q 'no work to do' || fail 'PTX of kernels that have not changed is made again'
  [[ $(timeout 60 "$dir/with_ptx" 2>"$tmp/stderr") == 8 ]] || fail 'tern_device_code: the program fails'
  echo 'ok   tern_device_code'
else
  echo 'skip tern_device_code: clang is not here'
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
# Quoting would make one argument of many.
# shellcheck disable=SC2046
quietly pkg-config g++ -o "$tmp/pc_app" "$tmp/programs/app.cpp" $(pkg-config --cflags --libs tern)
LD_LIBRARY_PATH=$libdir run_everywhere 'pkg-config tern' "$tmp/pc_app"
for compiler in "${compilers[@]}"; do
  lto=()
  if [[ $compiler == g++ ]]; then lto=(-flto=auto); fi # clang's needs a linker of the same version
  # shellcheck disable=SC2046
  quietly "pkg-config-$compiler" "$compiler" -O3 "${lto[@]}" -Wl,--as-needed -o "$tmp/pc_messages" \
    "$tmp/programs/messages_only.cpp" $(pkg-config --cflags --libs tern)
  LD_LIBRARY_PATH=$libdir has_all_options "pkg-config tern, $compiler -O3${lto[*]:+ ${lto[*]}}" "$tmp/pc_messages"
done

if "$cmake" -S "$tmp/programs/nonsense" -B "$tmp/build-nonsense" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
  >"$tmp/nonsense.log" 2>&1; then
  fail 'find_package(tern COMPONENTS nonsense) was accepted'
fi
# CMake breaks lines where it likes.
tr -s ' \n' ' ' <"$tmp/nonsense.log" | grep -q "has no component 'nonsense'; it has: base " ||
  { cat -- "$tmp/nonsense.log" >&2; fail 'a missing component is not named'; }
echo 'ok   find_package(tern COMPONENTS nonsense) is refused by name'
