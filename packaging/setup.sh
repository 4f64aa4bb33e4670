#!/bin/sh
# Makes a clone ready: "setup.sh run" to use Sottovoce, "setup.sh test" to work on it. `make` calls it each time.
#
# It installs missing system libraries, makes .venv, installs the locked packages and then the project itself in place.
# A stamp in .venv says for which place, interpreter, locks and lists that was done, so a second call only compares it.
# Set PYTHON to choose the interpreter.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

case ${1-} in
    run | test) purpose=$1 ;;
    *) echo "usage: packaging/setup.sh run|test" >&2 && exit 2 ;;
esac

say() { echo "set-up: $*" >&2; }
stop() { say "$*" && exit 1; }

key() {
    pwd -P
    .venv/bin/python -c 'import sys; print(sys.version)' 2>/dev/null || echo 'no interpreter'
    cksum pyproject.toml packaging/setup.sh packaging/lock-*.txt packaging/system-*.txt
}
done_for() { [ "$(cat ".venv/stamp-$1" 2>/dev/null)" = "$(key)" ]; }

# --- System libraries -------------------------------------------------------------------------------------------------

# An interpreter that is new enough and can make a virtual environment; Debian keeps that part in python3-venv.
find_python() {
    for name in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name" && return
        fi
    done
}

have() {
    case $1 in
        *.so.*) case $libraries in *" $1 "*) return 0 ;; *) return 1 ;; esac ;;
        */*) for match in $1; do [ ! -e "$match" ] || return 0; done; return 1 ;;  # unquoted: it is a pattern
        *) command -v "$1" >/dev/null || [ -x ".venv/bin/$1" ] ;;
    esac
}

# Sets `names`, what the lists ask for and the system lacks, and `packages`, what brings that on Debian.
find_missing() {
    libraries=" $(ldconfig -p 2>/dev/null | awk '{ print $1 }' | tr '\n' ' ') "
    names='' packages=''
    [ -n "$(find_python)" ] || packages='python3 python3-venv'
    while read -r name package; do
        case $name in '' | '#'*) continue ;; esac
        have "$name" || { names="$names $name" packages="$packages $package"; }
    done <<END
$(cat packaging/system-run.txt; [ "$purpose" = run ] || cat packaging/system-test.txt)
END
}

install_system() {
    [ "$(uname -s)" = Linux ] || return 0  # elsewhere the Python packages bring all of it
    find_missing
    [ -n "$packages" ] || return 0
    if ! command -v apt-get >/dev/null; then
        [ -z "$names" ] || say "no apt here; if something fails, install by this system's own means what brings:$names"
        return 0
    fi
    install='install --yes --no-remove --no-install-recommends'
    as_root=''
    if [ "$(id -u)" != 0 ]; then
        as_root=sudo
        sudo -n true 2>/dev/null || stop "system libraries are missing; type this, then the same make command again:
    sudo apt-get update && sudo apt-get $install ${packages# }"
    fi
    apt="$as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600"
    say "installing system libraries, which takes a minute or two:$packages"
    $apt update || say 'apt could not refresh every list; going on with those that it has'
    $apt $install $packages >/dev/null || stop 'apt failed, for the reason above; nothing was removed'
}

# --- Python packages --------------------------------------------------------------------------------------------------

make_venv() {
    # Scripts in .venv name their own place, so a clone that was moved needs a new one.
    if grep -qsF "$(pwd -P)/.venv" .venv/bin/activate && .venv/bin/python -m pip --version >/dev/null 2>&1; then
        return
    fi
    python=$(find_python)
    [ -n "$python" ] || stop "no Python 3.11 or newer with its venv module; name one: make $purpose PYTHON=/path/to/python3"
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
}

install_packages() {
    pip='.venv/bin/python -m pip --disable-pip-version-check --no-input install'
    say "installing the packages of packaging/lock-$purpose.txt"
    $pip --require-hashes --only-binary=:all: --requirement "packaging/lock-$purpose.txt"
    $pip --quiet --no-deps --no-build-isolation --editable .
}

# The tests start a PulseAudio of their own. The Debian package of that name would bring a sound server for the whole
# machine, and on most desktops displace PipeWire's, so here its program is only unpacked, for .venv alone.
unpack_pulseaudio() {
    if have pulseaudio || ! command -v apt-get >/dev/null; then return 0; fi
    say 'unpacking PulseAudio for the tests into .venv'
    home=$(pwd -P)/.venv/pulseaudio
    rm -rf "$home" && mkdir "$home"
    fetch='apt-get -qq -o APT::Sandbox::User=root download'  # apt's own user may not write into a clone
    (cd "$home" && $fetch pulseaudio && dpkg-deb --extract pulseaudio_*.deb . && rm pulseaudio_*.deb) ||
        stop 'apt could not fetch pulseaudio; try again after: sudo apt-get update'
    modules=$(echo "$home"/usr/lib/pulse-*/modules)
    cat > .venv/bin/pulseaudio <<END
#!/bin/sh
export LD_LIBRARY_PATH="$(echo "$home"/usr/lib/*/pulseaudio):$modules"
exec "$home/usr/bin/pulseaudio" "--dl-search-path=$modules" "\$@"
END
    chmod +x .venv/bin/pulseaudio
}

if done_for "$purpose" || { [ "$purpose" = run ] && done_for test; }; then exit 0; fi
install_system
make_venv
install_packages
[ "$purpose" = run ] || unpack_pulseaudio
key > ".venv/stamp-$purpose"
say ready
