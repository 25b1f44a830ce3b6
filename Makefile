# What a developer does with this project. `make` alone lists it.

.PHONY: help run test lint tools

help:
	@echo "make run    run the service on its embedded database"
	@echo "make test   install what the tests need and run all of them"
	@echo "make lint   formatting and lints, without a warning"

run:
	cargo run --release -- serve

# Without this, `cargo test` leaves out the tests that need outside tools and
# says so.
test: tools
	cargo test --locked -- --include-ignored

lint:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

# Debian's packages, for the tests that look at the process from outside.
TOOLS = strace curl script:bsdutils
SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

tools:
	@for tool in $(TOOLS); do \
		command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
		$(SUDO) apt-get update -q && $(SUDO) apt-get install -qy $$missing; \
	fi
