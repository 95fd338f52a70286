# One line a target; scripts/ has what is longer.
FUZZTIME ?= 10s
SOAK ?= 20

build: ; go build -o bin/tidemark ./cmd/tidemark
run: build ; bin/tidemark dev
test: ; scripts/test.sh
race: ; scripts/test.sh -race
lint: ; scripts/lint.sh
docs: ; go run ./internal/docgen
fuzz: ; scripts/fuzz.sh $(FUZZTIME)
bench: ; go test -run '^$$' -bench . -benchmem ./...
# The black-box tests, over and over: what fails once in a hundred runs fails here.
soak: ; scripts/with-services.sh go test -race -timeout 6h -count=$(SOAK) ./integration/...

.PHONY: build run test race lint docs fuzz bench soak
