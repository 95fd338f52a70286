#!/bin/sh
# Builds the programs that tests and checks need, at the versions that tools/go.mod pins, into $TIDEMARK_TOOLS
# (default: the user's cache folder, outside the clone, so that a fresh clone finds them again). What is already there at
# the right version is left alone.
#
#   versitygw    the S3 server of the tests
#   staticcheck  the linter
set -eu
cd "$(dirname "$0")"
bin=${TIDEMARK_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/tidemark/bin}
mkdir -p "$bin"

build() { # name, package, module
	want=$(go list -m -f '{{.Version}}' "$3")
	have=$(go version -m "$bin/$1" 2>/dev/null | awk -v m="$3" '$1 == "mod" || $1 == "dep" { if ($2 == m) print $3 }')
	if [ "$have" = "$want" ]; then
		echo "$1 $want is there"
		return
	fi
	echo "building $1 $want"
	GOFLAGS='' CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/$1.new" "$2"
	mv "$bin/$1.new" "$bin/$1"
}

build versitygw github.com/versity/versitygw/cmd/versitygw github.com/versity/versitygw
build staticcheck honnef.co/go/tools/cmd/staticcheck honnef.co/go/tools
