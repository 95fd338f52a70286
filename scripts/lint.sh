#!/bin/bash
# What a reviewer need not look for: formatting, vet, staticcheck, stale generated pages. Runs all, then fails if one failed.
set -uo pipefail
cd "$(dirname "$0")/.."
tools=${TIDEMARK_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/tidemark/bin}
status=0
step() {
	echo "# $1"
	shift
	"$@" || status=1
}
formatted() {
	local files
	files=$(git ls-files -z '*.go' | xargs -0 gofmt -l) && [ -z "$files" ] || { echo "not gofmt-clean: $files"; return 1; }
}
step gofmt formatted
step vet go vet ./...
step staticcheck "$tools/staticcheck" ./...
step "generated pages" go run ./internal/docgen -check
step docker python3 scripts/check-docker.py
exit $status
