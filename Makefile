# One line a target; scripts/ has what is longer.
FUZZTIME ?= 10s
SOAK ?= 20
KILLS ?= 50
OUTAGE ?= 30s
DURATION ?= 10m

build: ; go build -o bin/tidemark ./cmd/tidemark
run: build ; bin/tidemark dev
test: ; scripts/test.sh
race: ; scripts/test.sh -race
lint: ; scripts/lint.sh
docs: ; go run ./internal/docgen
# Three brokers, Postgres and an S3 server on this machine, until Ctrl-C (scripts/cluster.sh says more).
cluster: ; scripts/cluster.sh
fuzz: ; scripts/fuzz.sh $(FUZZTIME)
bench: ; go test -run '^$$' -bench . -benchmem ./...
# Tidemark beside Apache Kafka, into docs/benchmarks.md: a selection in 45 minutes, or the whole matrix. Lengths: BENCH_SECONDS
# and the other variables of integration/bench/settings.go, e.g. BENCH_SECONDS=3 BENCH_RUNS=1 BENCH_ROWS=librdkafka.
bench-compare: ; cd integration/bench && go run .
bench-compare-full: ; cd integration/bench && BENCH_FULL=1 go run .
# Three brokers of each, into a section of the same page, in 12 minutes.
bench-cluster: ; scripts/with-services.sh sh -c 'cd integration/bench && BENCH_CLUSTER=1 exec go run .'
# A cluster of processes under faults: each of the two long tests lasts DURATION, Postgres is away for a minute; other variables
# in integration/chaos.
chaos: ; TIDEMARK_CHAOS_DURATION=$(DURATION) TIDEMARK_CHAOS_KILLS=$(DURATION) TIDEMARK_CHAOS_OUTAGE=60s TIDEMARK_CHAOS_SEGMENTS=800 TIDEMARK_CHAOS_DEFAULT_KILLS=10 scripts/with-services.sh go test -timeout 24h -count=1 -parallel 1 -v ./integration/chaos
# The checked models of the riskiest rules; LIMIT seconds for each search.
model: ; docs/model/run.sh
# The black-box tests, over and over: what fails once in a hundred runs fails here.
soak: ; TIDEMARK_SOAK_KILLS=$(KILLS) TIDEMARK_SOAK_OUTAGE=$(OUTAGE) scripts/with-services.sh go test -race -timeout 6h -count=$(SOAK) ./integration/... && TIDEMARK_COMPACTION_RUNS=10000 go test -timeout 6h -run Model ./broker/cleaning && TIDEMARK_SOAK_CUTS=200 go test -timeout 6h -run PowerCuts ./broker

.PHONY: build run test race lint docs cluster fuzz bench bench-compare bench-compare-full bench-cluster soak chaos model
