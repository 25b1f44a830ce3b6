# What a developer does with this project. `make` alone lists it.

.PHONY: help run test test-outside soak lint bench package tools

help:
	@echo "make run      run the service on its embedded database"
	@echo "make test     install what the tests need and run all of them"
	@echo "make soak     sell animals under kills for ten minutes (SOAK_SECONDS, SEED), and check"
	@echo "make lint     formatting, lints and licences, without a warning"
	@echo "make bench    measure the service beside its limits and its peers (20 minutes;"
	@echo "              some scenarios only: make bench SCENARIOS='list create-64')"
	@echo "make package  build the Debian package, into target/debian"

BUILT = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

run:
	cargo run --release -- serve

# Without this, `cargo test` leaves out the tests that need outside tools and
# says so.
test: tools
	cargo test --locked -- --include-ignored
	$(MAKE) test-outside

# A browser, a linter, a fuzzer and generators of clients, on the built program.
OUTSIDE = tests/outside
PYTHON_TOOLS = $(CURDIR)/target/outside/bin

test-outside: tools
	cargo test --locked --no-run
	cd $(OUTSIDE) && npm ci
	test -x $(PYTHON_TOOLS)/python || python3 -m venv target/outside
	$(PYTHON_TOOLS)/pip install --quiet --disable-pip-version-check -r $(OUTSIDE)/requirements.txt
	cd $(OUTSIDE) && PETSTORE_BINARY=$(BUILT)/debug/petstore \
		PYTHON_TOOLS=$(PYTHON_TOOLS) ARTEFACTS=$(CURDIR)/target/outside/artefacts npm test

# Clients, replicas and kills for longer; the history of each animal is checked.
# What it found can be repeated with the SEED that it printed.
soak: export SOAK_SECONDS ?= 600
soak: tools
	cargo test --locked --test process -- --include-ignored --nocapture sold_twice

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO_INSTALL) --no-default-features cargo-deny@0.20.2
	$(CARGO_TOOLS)/cargo-deny --workspace --locked check licenses bans sources

# Without optimisation they are built in a third of the time, and fast enough.
# What is there already is left as it is.
CARGO_TOOLS = target/tools/bin
CARGO_INSTALL = CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --root target/tools

# Manual and completions are what the program itself prints.
package: TOOLS = dpkg-shlibdeps:dpkg-dev
package: PETSTORE = $(BUILT)/release/petstore
package: tools
	$(CARGO_INSTALL) cargo-deb@3.8.0
	cargo build --release --locked --bin petstore
	rm -rf target/package
	$(PETSTORE) man target/package/man
	$(PETSTORE) completions bash > target/package/petstore
	$(PETSTORE) completions zsh > target/package/_petstore
	$(PETSTORE) completions fish > target/package/petstore.fish
	$(CARGO_TOOLS)/cargo-deb --no-build --locked

# Everything that is measured, into bench/RESULTS.md; chosen scenarios are only
# printed.
bench: TOOLS = wrk h2load:nghttp2-client npm python3 pg_ctlcluster:postgresql setpriv:util-linux
bench: tools
	python3 bench/run.py $(SCENARIOS)

# Debian's packages: the program to look for, and the package if it has another
# name. RUNLEVEL: what is installed starts no service; the tests start their own.
TOOLS = strace curl openssl script:bsdutils faketime chromium node:nodejs npm python3 \
	pg_ctlcluster:postgresql setpriv:util-linux pgbouncer groff:groff-base \
	systemd-analyze:systemd
SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

tools:
	@for tool in $(TOOLS); do \
		PATH="$$PATH:/usr/sbin" command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
		$(SUDO) apt-get update -q && $(SUDO) env RUNLEVEL=1 apt-get install -qy $$missing; \
	fi
