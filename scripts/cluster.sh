#!/bin/bash
# A cluster on this machine: three brokers, a Postgres and an S3 server, until Ctrl-C; everything is gone then.
#
#   scripts/cluster.sh              prints the addresses and waits
#   scripts/cluster.sh COMMAND…     runs COMMAND with BOOTSTRAP and HTTP set, and ends with it
#
# BROKERS (3) brokers listen on KAFKA_PORT (9092) and up, and on HTTP_PORT (9644) and up. Other TIDEMARK_… variables go to
# all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${CLUSTER_STORES:-}" ]; then
	go build -o bin/tidemark ./cmd/tidemark
	CLUSTER_STORES=1 exec scripts/with-services.sh "$0" "$@"
fi

brokers=${BROKERS:-3} kafka=${KAFKA_PORT:-9092} http=${HTTP_PORT:-9644}
dir=$(mktemp -d)
pids=()
cleanup() {
	for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 0' INT TERM

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
for ((i = 0; i < brokers; i++)); do
	for port in $((kafka + i)) $((http + i)); do
		! listens "$port" || { echo "cluster: port $port is in use; set KAFKA_PORT or HTTP_PORT" >&2; exit 1; }
	done
done

curl -fsS -X PUT -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" --aws-sigv4 aws:amz:us-east-1:s3 \
	--user "$TEST_S3_ACCESS_KEY:$TEST_S3_SECRET_KEY" "$TEST_S3_ENDPOINT/tidemark"
export AWS_ACCESS_KEY_ID=$TEST_S3_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$TEST_S3_SECRET_KEY
export TIDEMARK_CATALOG_URL=$TEST_PG_DSN
export TIDEMARK_OBJECT_STORE_URL="s3://tidemark/cluster?region=us-east-1&endpoint=$TEST_S3_ENDPOINT&path_style=true"

bootstrap=""
for ((i = 0; i < brokers; i++)); do
	address=127.0.0.1:$((kafka + i))
	TIDEMARK_BROKER_ID=$((i + 1)) TIDEMARK_RACK="rack-$((i + 1))" TIDEMARK_DATA_DIR="$dir/$((i + 1))" \
		TIDEMARK_LISTENERS="PLAINTEXT://$address" TIDEMARK_HTTP_LISTEN="127.0.0.1:$((http + i))" \
		bin/tidemark serve >"$dir/$((i + 1)).log" 2>&1 &
	pids+=($!)
	bootstrap+="${bootstrap:+,}$address"
done

for ((i = 0; i < brokers; i++)); do
	for ((n = 0; ; n++)); do
		curl -fsS -o /dev/null "http://127.0.0.1:$((http + i))/readyz" 2>/dev/null && break
		if [ "$n" = 300 ] || ! kill -0 "${pids[i]}" 2>/dev/null; then
			echo "cluster: broker $((i + 1)) did not start:" >&2
			tail -n 20 "$dir/$((i + 1)).log" >&2
			exit 1
		fi
		sleep 0.1
	done
done

export BOOTSTRAP=$bootstrap HTTP="http://127.0.0.1:$http"
if [ $# -gt 0 ]; then
	"$@"
	exit
fi
cat <<END
brokers   $bootstrap
http      $(for ((i = 0; i < brokers; i++)); do printf 'http://127.0.0.1:%s ' $((http + i)); done)
catalog   $TEST_PG_DSN
bucket    $TIDEMARK_OBJECT_STORE_URL
logs      $dir/*.log
pids      ${pids[*]}
Ctrl-C ends it all.
END
wait -n "${pids[@]}" || true
while [ -n "$(jobs -rp)" ]; do
	echo "a broker has ended; the others go on"
	wait -n || true
done
