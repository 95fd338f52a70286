#!/bin/bash
# Runs every fuzz target of the module for a while each: scripts/fuzz.sh 30s
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}
while IFS= read -r package; do
	while IFS= read -r target; do
		echo "# $package $target"
		go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time"
	done < <(go test "$package" -list '^Fuzz' | grep '^Fuzz' || true)
done < <(git grep -l '^func Fuzz' -- '*_test.go' | xargs -r -n 1 dirname | sort -u | sed 's|^|./|')
