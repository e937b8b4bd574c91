#!/usr/bin/env bash
# Drives the coding agents that npm offers through the server, configured as
# docs/install.md prints it, with a scripted model on the loopback address.
# Needs Go, npm and about 2 GB below DIR, where the packages are installed.
#
#	interop/hosts/run.sh [DIR [HOST...]]
#
# The agents run in a network namespace that has only the loopback address,
# where the system allows that. Where npm is absent or a package cannot be had,
# the last line says so: nothing was proved then.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
export XDG_STATE_HOME=$work/state # not the user's
keep=$(realpath -m "${1:-$work/packages}")
shift || true
trap 'rm -rf "$work"' EXIT

# absent ends what cannot be run, which is a failure in a full run of .ci/run.
absent() {
	echo "NOT RUN: $1"
	[ "${RW_CI_FULL:-}" != 1 ] || exit 1
	exit 0
}
for tool in npm node; do
	command -v "$tool" >/dev/null || absent "$tool is absent"
done
(cd "$root" && go build -o "$work/bin/resilient-write" ./cmd/resilient-write)
(cd "$root/interop" && go build -o "$work/hosts" ./hosts)

# install NAME PACKAGE: each has a directory of its own, since they bring other
# versions of the same packages.
install() {
	mkdir -p "$keep/$1"
	[ -f "$keep/$1/package.json" ] || echo '{"private": true}' >"$keep/$1/package.json"
	[ "$(cat "$keep/$1/.installed" 2>/dev/null)" = "$2" ] && return
	(cd "$keep/$1" && timeout 900 npm install --no-audit --no-fund --loglevel=error --fetch-timeout=120000 "$2") >"$work/npm.log" 2>&1 || {
		tail -5 "$work/npm.log"
		absent "$2 could not be installed"
	}
	echo "$2" >"$keep/$1/.installed"
}
install node node@22 # the newest agents want it
export PATH="$keep/node/node_modules/.bin:$PATH"
while read -r name package; do
	[ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
	install "$name" "$package"
done < <("$work/hosts" -list)

alone=()
if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
	alone=(unshare -n sh -c 'ip link set lo up; exec "$@"' sh)
else
	echo "no network namespace can be made here; the agents are only configured for the loopback address"
fi
mkdir "$work/logs"
"${alone[@]}" "$work/hosts" -packages "$keep" -server "$work/bin/resilient-write" -page "$root/docs/install.md" -logs "$work/logs" "$@" || {
	for log in "$work"/logs/*; do echo "== $log"; tail -c 3000 "$log"; done
	exit 1
}
