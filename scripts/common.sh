# shellcheck shell=bash
# What quickstart, check and the other scripts share: messages and missing Debian packages. To be sourced.

# All talk goes to standard error; standard output is for results.
say() { printf '%s\n' "$*" >&2; }

# missing_packages NAME...: prints those that dpkg does not know as installed.
missing_packages() {
  local name
  for name in "$@"; do
    [[ $(dpkg-query -W -f='${Status}' "$name" 2>/dev/null) == *' ok installed' ]] || printf '%s ' "$name"
  done
}

# install_packages NAME...: installs what is missing with apt-get; touches no network where nothing is.
install_packages() {
  local missing log as_root=()
  if ! command -v dpkg-query >/dev/null; then
    say "   This system has no dpkg, so nothing is installed here. Needed are the counterparts of: $*"
    return 0
  fi
  missing=$(missing_packages "$@")
  missing=${missing% }
  if [[ -z $missing ]]; then
    say "   All $# packages are installed."
    return 0
  fi
  if [[ $(id -u) -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      say "   Missing: $missing"
      say "   Installing them needs root. As root, run: apt-get install $missing"
      return 1
    fi
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  say "   Installing with apt-get: $missing"
  log=$(mktemp)
  "${as_root[@]}" update >"$log" 2>&1 </dev/null || say "   apt-get update failed; trying with the package lists at hand."
  # The names are separate words on purpose.
  # shellcheck disable=SC2086
  if ! "${as_root[@]}" install -y --no-install-recommends $missing >>"$log" 2>&1 </dev/null; then
    tail -n 15 "$log" >&2
    rm -f "$log"
    say "   apt-get could not install: $missing"
    say "   Without network, install these packages by other means and run this again."
    return 1
  fi
  rm -f "$log"
}

# forget_moved_build DIR: a build folder that was configured elsewhere cannot be used again.
forget_moved_build() {
  local home
  [[ -f $1/CMakeCache.txt ]] || return 0
  home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$1/CMakeCache.txt")
  [[ $home == "$PWD" ]] || rm -rf "$1"
}
