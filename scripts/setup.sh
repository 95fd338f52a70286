#!/bin/bash
# Installs what the tests and checks need and this machine lacks: Postgres and the Kafka clients from the system's
# packages, the S3 server and the linter by building tools/. Says at the end what could not be installed and who needs it;
# exits 1 then. Run again, it does nothing that is done.
set -uo pipefail
cd "$(dirname "$0")/.."

have_postgres() { command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
have_header() { [ -f "/usr/include/$1" ]; }
have_module() { local IFS=,; /usr/bin/python3 -c "import $*" 2>/dev/null; }
have() { command -v "$1" >/dev/null; }

# what | test that it is there | Debian package | who needs it
needs() {
	cat <<-'LIST'
		Postgres|have_postgres|postgresql|every test of the catalog
		a C compiler|have gcc|gcc libc6-dev|go test -race
		spin|have spin|spin|make model
		kcat|have kcat|kcat|integration: librdkafka
		pgbouncer|have pgbouncer|pgbouncer|catalog/postgres: a transaction pooler (K4)
		confluent_kafka|have_module confluent_kafka|python3-confluent-kafka|integration: Python on librdkafka
		kafka-python|have_module kafka|python3-kafka|integration: kafka-python
		its codecs|have_module lz4 snappy|python3-lz4 python3-snappy|integration: kafka-python
		librdkafka's headers|have_header librdkafka/rdkafka.h|librdkafka-dev|make bench-compare
		Java|have java|default-jdk-headless|integration: the Java client
		Maven|have mvn|maven|integration: the Java client
		Node|have node|nodejs|integration: kafkajs
		npm|have npm|npm|integration: kafkajs
	LIST
}

as_root=""
if [ "$(id -u)" != 0 ]; then
	have sudo && as_root="sudo -n"
fi

wanted=()
while IFS='|' read -r _ test packages _; do
	$test || read -ra more <<<"$packages" && $test || wanted+=("${more[@]}")
done < <(needs)

if [ ${#wanted[@]} -gt 0 ] && have apt-get; then
	echo "installing: ${wanted[*]}"
	$as_root apt-get update -qq || echo "setup: apt-get update failed"
	for package in "${wanted[@]}"; do # one by one: a missing one must not keep out the others
		DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
			echo "setup: apt-get cannot install $package"
	done
fi

missing=0
while IFS='|' read -r what test packages who; do
	$test && continue
	echo "setup: $what is missing (Debian: $packages); without it these fail: $who"
	missing=1
done < <(needs)

sh tools/install.sh || {
	echo "setup: versitygw or staticcheck could not be built; without them these fail: every test against S3, make lint"
	missing=1
}
exit $missing
