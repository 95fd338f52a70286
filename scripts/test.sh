#!/bin/bash
# Sets up what the tests need and runs them all; arguments go to go test, e.g. scripts/test.sh -race. The one command of
# the README's second step, and what CI runs.
set -uo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh || echo "test: some tests will fail for want of what is said above"

# Black-box stories wait more than they work: four of a package at a time, however many cores there are.
flags=(-timeout 60m -parallel 4 "$@")
# SQLite is C that was translated to Go; under the race detector a third of its time goes into checks of its pointers, which
# are no business of these tests.
case " $* " in *" -race "*) export GOFLAGS="${GOFLAGS:+$GOFLAGS }-gcflags=modernc.org/...=-d=checkptr=0" ;; esac

# Each test has a database of its own: with fsync the disk would be what most of them wait for.
export TEST_PG_FSYNC=${TEST_PG_FSYNC:-off}

status=0
scripts/with-services.sh go test "${flags[@]}" ./... || status=1
while IFS= read -r module; do
	echo "# $module"
	(cd "$module" && ../../scripts/with-services.sh go test "${flags[@]}" ./...) || status=1
done < <(find integration -mindepth 2 -maxdepth 2 -name go.mod -printf '%h\n' 2>/dev/null | sort)
exit $status
