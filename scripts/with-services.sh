#!/bin/bash
# Runs a command with a Postgres and an S3 server of its own: scripts/with-services.sh go test ./...
# Both listen on free ports of 127.0.0.1, keep their data in a temporary folder, are named to the command by TEST_PG_DSN,
# TEST_S3_ENDPOINT, TEST_S3_ACCESS_KEY and TEST_S3_SECRET_KEY, and are gone when it ends. Those that are set already are
# used as they are. TEST_PG_FSYNC=off makes a Postgres that need not survive the machine.
set -euo pipefail

tools=${TIDEMARK_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/tidemark/bin}
dir=$(mktemp -d)
chmod 755 "$dir"
postgres=""
gateway=""
cleanup() {
	[ -z "$gateway" ] || kill -TERM "$gateway" 2>/dev/null || true
	[ -z "$postgres" ] || kill -INT "$postgres" 2>/dev/null || true # its fast shutdown
	wait
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
free_port() {
	local port
	while :; do
		port=$((31000 + RANDOM % 1700)) # above those of the tests' brokers, below those of outgoing connections
		listens "$port" || { echo "$port"; return; }
	done
}
# await PID PORT LOG: the process PID listens on PORT within half a minute.
await() {
	local n
	for ((n = 0; n < 300; n++)); do
		listens "$2" && return
		kill -0 "$1" 2>/dev/null || break
		sleep 0.1
	done
	echo "with-services: a server did not start:" >&2
	tail -n 20 "$3" >&2
	exit 1
}

if [ -z "${TEST_PG_DSN:-}" ]; then
	initdb=$(command -v initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1 || true)
	[ -x "$initdb" ] || { echo "with-services: no Postgres; run scripts/setup.sh" >&2; exit 1; }
	initdb=$(readlink -f "$initdb")
	as=()
	if [ "$(id -u)" = 0 ]; then # Postgres refuses to run as root
		as=(setpriv --reuid=postgres --regid=postgres --init-groups --reset-env)
		install -d -o postgres "$dir/pg"
	fi
	(cd / && "${as[@]}" "$initdb" -D "$dir/pg" -U postgres -A trust --no-sync -E UTF8 --locale=C >"$dir/initdb.log")
	port=$(free_port)
	(cd / && exec "${as[@]}" "$(dirname "$initdb")/postgres" -D "$dir/pg" -p "$port" -k '' \
		-c listen_addresses=127.0.0.1 -c max_connections=400 -c wal_sync_method=fdatasync -c fsync="${TEST_PG_FSYNC:-on}") >"$dir/pg.log" 2>&1 &
	postgres=$!
	await "$postgres" "$port" "$dir/pg.log"
	export TEST_PG_DSN="postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
fi

if [ -z "${TEST_S3_ENDPOINT:-}" ]; then
	versitygw=$(command -v "$tools/versitygw" || command -v versitygw || true)
	[ -x "$versitygw" ] || { echo "with-services: no versitygw; run tools/install.sh" >&2; exit 1; }
	mkdir "$dir/s3" "$dir/s3-versions"
	export TEST_S3_ACCESS_KEY=testkey TEST_S3_SECRET_KEY=testsecret1
	port=$(free_port)
	ROOT_ACCESS_KEY=$TEST_S3_ACCESS_KEY ROOT_SECRET_KEY=$TEST_S3_SECRET_KEY "$versitygw" --port "127.0.0.1:$port" --keep-alive \
		--quiet posix --versioning-dir "$dir/s3-versions" "$dir/s3" >"$dir/s3.log" 2>&1 &
	gateway=$!
	await "$gateway" "$port" "$dir/s3.log"
	export TEST_S3_ENDPOINT="http://127.0.0.1:$port"
fi

status=0
"$@" || status=$?
exit $status
