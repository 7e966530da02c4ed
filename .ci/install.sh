#!/usr/bin/env bash
# Installs into an environment: .ci/install.sh PYTHON WHAT..., with the options that uv and pip share.
# uv takes seconds where pip takes minutes. It reads none of pip's settings, so it gets them as arguments. What it
# cannot do, pip does.
set -euo pipefail
python=$1
shift

own=$(dirname "$0")/../build/uv
tool=$(command -v uv || echo "$own/bin/uv")
if ! [ -x "$tool" ]; then
  "$python" -m venv "$own" && "$own/bin/python" -m pip install --quiet --disable-pip-version-check uv || tool=false
fi
setting() { "$python" -m pip config get "global.$1" 2>/dev/null || true; }
: "${UV_DEFAULT_INDEX:=$(setting index-url)}" "${UV_INDEX:=${PIP_EXTRA_INDEX_URL:-$(setting extra-index-url)}}"
: "${UV_FIND_LINKS:=${PIP_FIND_LINKS:-$(setting find-links)}}"
for name in UV_DEFAULT_INDEX UV_INDEX UV_FIND_LINKS; do [ -z "${!name}" ] || export "${name?}"; done

"$tool" pip install --quiet --python "$python" --index-strategy unsafe-best-match "$@" ||
  "$python" -m pip install --quiet --no-compile --disable-pip-version-check "$@"
