#!/usr/bin/env bash
# Tests with independent programs: the official TypeScript SDK in
# two generations, the Inspector's strict lint, and the public conformance
# suite, over stdio and HTTP. Needs Go and npm; installs the rest into DIR.
#
#	interop/clients/run.sh [DIR]
#
# Where npm or node is absent, or the packages cannot be had, it says which and
# ends well: nothing was proved then, and the last line says so. Once they are
# there, whatever fails is a failure.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
export XDG_STATE_HOME=$work/state # not the user's
keep=${1:-$work/packages}
server=
finish() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"; }
trap finish EXIT

# absent ends what cannot be run, which is a failure in a full run of .ci/run.
absent() {
	echo "NOT RUN: $1"
	[ "${RW_CI_FULL:-}" != 1 ] || exit 1
	exit 0
}
for tool in npm node; do
	command -v "$tool" >/dev/null || absent "$tool is absent"
done
mkdir -p "$keep"
cp "$here/package.json" "$here/client.mjs" "$keep/"
# gone prints which packages are missing in the wanted version.
gone() {
	(cd "$keep" && node --input-type=commonjs -e '
		const read = (file) => JSON.parse(require("fs").readFileSync(file, "utf8"));
		const gone = [];
		for (const [name, spec] of Object.entries(read("package.json").dependencies)) {
			const want = spec.replace(/^npm:.*@/, "");
			let have = "";
			try { have = read(`node_modules/${name}/package.json`).version; } catch {}
			if (have !== want && !have.startsWith(want + ".")) gone.push(`${name}@${want}`);
		}
		console.log(gone.join(" "));
	')
}
# A slow registry may take its time, but not for ever.
limit=
! command -v timeout >/dev/null || limit="timeout 600"
if (cd "$keep" && $limit npm install --no-audit --no-fund --no-package-lock --loglevel=error --fetch-timeout=120000 --fetch-retry-maxtimeout=20000) >"$work/npm.log" 2>&1; then
	cp "$keep/package.json" "$keep/.installed"
else
	echo "npm install ended with code $?" >>"$work/npm.log"
fi
missing=$(gone)
# What an earlier run has put into DIR does as well.
if [ -n "$missing" ] || [ "$(cat "$keep/package.json")" != "$(cat "$keep/.installed" 2>/dev/null)" ]; then
	tail -5 "$work/npm.log"
	absent "the packages could not be installed: ${missing:-some that they need}"
fi
export PATH="$keep/node_modules/.bin:$PATH"
echo "node $(node --version)"

(cd "$root" && go build -o "$work/resilient-write" ./cmd/resilient-write)
(cd "$root/interop" && go build -o "$work/conformance" ./conformance)

# begin LOG COMMAND…: starts a server and sets url from the address it prints.
begin() {
	local log=$1
	shift
	"$@" >"$log" 2>&1 &
	server=$!
	for _ in $(seq 900); do
		url=$(grep -aoE '127[0-9.]*:[0-9]+' "$log" | head -1) || true
		[ -z "$url" ] || { url="http://$url/mcp"; return; }
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	cat "$log"
	echo "the server did not start"
	exit 1
}
end() { kill "$server"; wait "$server" 2>/dev/null || true; server=; }

# The clients look at structured content and at the schemas of replies, which
# tier full has.
echo "-- the TypeScript SDK"
mkdir "$work/stdio" "$work/http"
for sdk in v1 v2; do
	(cd "$keep" && node client.mjs "$sdk" stdio "$work/resilient-write" "$work/stdio")
done
begin "$work/http.log" env RW_TOKEN=interop-token-0123456789abcdef "$work/resilient-write" serve --tier full --transport http --port 0 --root "$work/http"
for sdk in v1 v2; do
	(cd "$keep" && node client.mjs "$sdk" http "$url" interop-token-0123456789abcdef)
done
end

echo "-- the Inspector, strict"
for tier in core standard full; do
	mcp-inspector --cli -e "XDG_STATE_HOME=$XDG_STATE_HOME" "$work/resilient-write" serve --tier "$tier" --root "$work/stdio" --method tools/list --strict >"$work/inspector.json" 2>"$work/inspector.log" || {
		cat "$work/inspector.json" "$work/inspector.log"
		exit 1
	}
	echo "ok $tier: $(grep -c '"name": "rw_' "$work/inspector.json") tools, $(grep -ao '[0-9]* errors, [0-9]* warnings' "$work/inspector.log" || echo "no warnings")"
done

echo "-- the conformance suite"
mkdir "$work/conf"
begin "$work/conf.log" "$work/conformance" -root "$work/conf"
# suite LOG COMMAND…: shows the summary, or everything when there is none.
suite() {
	local log=$1 code=0
	shift
	"$@" >"$log" 2>&1 || code=$?
	if grep -q '=== SUMMARY' "$log"; then sed -n '/=== SUMMARY/,$p' "$log"; else cat "$log"; fi
	return "$code"
}
suite "$work/suite.log" node "$keep/node_modules/@modelcontextprotocol/conformance/dist/index.js" server --url "$url" \
	--expected-failures "$here/expected-failures.yaml" -o "$work/results"
# The next release of the suite knows what the newest revision requires.
suite "$work/suite-next.log" node "$keep/node_modules/conformance-next/dist/index.js" server --url "$url" --requirements 2026-07-28 \
	--expected-failures "$here/expected-failures-2026-07-28.yaml" -o "$work/results-next"
end
echo "all clients are content"
