# Commands for developers. Run `make` alone to list them.

.PHONY: help run test format test-build test-rust test-outside postgres-versions golden-stores accept-instructions outside-tools \
	soak import-beside-till torture lint lint-rust lint-language deny advisories fuzz bench round-trip package \
	portable release release-platform first-minute reproducible screenshots tools

help:
	@echo "make run           build and run the service on petstore.db"
	@echo "make test          run all tests, formatting and lints; installs the tools they need"
	@echo "make test-rust     run only the tests in Rust, including those that need tools"
	@echo "make test-outside  run only the tests with external tools: browser, linter, fuzzer, client generators"
	@echo "make accept-instructions"
	@echo "                   count the instructions of the hot paths again, to compare with from now on"
	@echo "make screenshots   take the pictures of the console in the README"
	@echo "make soak          run the soak tests of sales and events, with crashes, for ten minutes each"
	@echo "                   (set SOAK_SECONDS and SEED to change length and random seed), and first-minute"
	@echo "make import-beside-till"
	@echo "                   import 50,000 rows in the console while a till sells, and print the times"
	@echo "                   (set IMPORT_ROWS to change that, and IMPORT_DATABASE=postgres for PostgreSQL)"
	@echo "make torture       run the fault campaigns at full length (hours; set SEED to repeat one)"
	@echo "make lint          check formatting, lints, documentation and licences"
	@echo "make postgres-versions"
	@echo "                   run a part of the API suite on PostgreSQL 14 and 18"
	@echo "                   (set VERSIONS to '14 15 16 17 18' for all)"
	@echo "make golden-stores VERSION=1.1"
	@echo "                   make the stores of a release, from which later versions are upgraded"
	@echo "make advisories    check the dependencies against the RustSec advisory database"
	@echo "make fuzz          run each fuzz target for a minute (set FUZZ_SECONDS to change that), after"
	@echo "                   50,000 mutated requests whose reading is compared with another parser's"
	@echo "make bench         run all benchmarks (30 minutes), or some of them:"
	@echo "                   make bench SCENARIOS='list create-64'"
	@echo "make round-trip    take a million animals through every format and both databases"
	@echo "                   (set ANIMALS to change that)"
	@echo "make package       build the Debian package into target/debian"
	@echo "make release       build everything that a release consists of into target/release-files"
	@echo "make first-minute  install the release on a bare Debian, add an animal, and print the times"
	@echo "make reproducible  build the package of HEAD twice, in different folders, and compare"

BUILT = $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)

run:
	cargo run --release -- serve

# Every part below, also after one has failed; ends with what failed.
test:
	@tests/run

format:
	cargo fmt --all --check

# Clippy is the compiler of our own crates: one build lints them and makes the tests, where
# `make lint` would check every dependency a second time. It keeps no state for the next
# build, which takes time and changes the generated code. A panic says its line; backtraces
# of those that tests cause would bury the others.
CARGO_TEST = CARGO_INCREMENTAL=0 RUSTC_WORKSPACE_WRAPPER=clippy-driver \
	CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ RUST_BACKTRACE=0 \
	cargo test --locked --workspace

test-build:
	$(CARGO_TEST) --no-run

# Instruction counts must be comparable, unless the environment sets how to build.
REQUIRE_INSTRUCTIONS = $(if $(RUSTFLAGS)$(CARGO_PROFILE_DEV_DEBUG)$(CARGO_PROFILE_DEV_OPT_LEVEL),,\
	REQUIRE_INSTRUCTIONS=1)

# Plain `cargo test` reports the tests that need external tools as ignored. Tests wait
# more than they compute, so twice as many run at a time as there are cores.
test-rust: tools target/outside/.installed
	$(REQUIRE_INSTRUCTIONS) $(CARGO_TEST) --no-fail-fast -- --include-ignored \
		--test-threads=$$((2 * $$(nproc)))

accept-instructions: TOOLS = valgrind
accept-instructions: tools
	ACCEPT_INSTRUCTIONS=1 $(CARGO_TEST) --test process -- --include-ignored hot_paths

# The suites above run on one version of PostgreSQL.
POSTGRES_VERSIONS = tests/postgres-versions
VERSIONS = 14 18

postgres-versions: $(POSTGRES_VERSIONS)/node_modules/.installed test-build
	CARGO_TEST="$(CARGO_TEST)" $(POSTGRES_VERSIONS)/run $(VERSIONS)

# npm may be set up to run no scripts of packages; this one makes symbolic links of libraries.
$(POSTGRES_VERSIONS)/node_modules/.installed: $(POSTGRES_VERSIONS)/package-lock.json
	cd $(POSTGRES_VERSIONS) && npm ci --ignore-scripts
	set -e; for package in $(POSTGRES_VERSIONS)/node_modules/postgres-*; do \
		(cd $$package && node scripts/hydrate-symlinks.js && chmod +x native/bin/*); done
	touch $@

golden-stores: TOOLS = pg_ctlcluster:postgresql setpriv:util-linux
golden-stores: tools
	test -n "$(VERSION)" || { echo "name the version: make golden-stores VERSION=1.1"; exit 1; }
	MAKE_GOLDEN_STORES=$(VERSION) $(CARGO_TEST) --test process -- --include-ignored are_upgraded_and_served

# Browser, linter, fuzzer and client generator tests against the debug binary.
OUTSIDE = tests/outside
PYTHON_TOOLS = $(CURDIR)/target/outside/bin

test-outside: outside-tools test-build
	cd $(OUTSIDE) && PETSTORE_BINARY=$(BUILT)/debug/petstore \
		PYTHON_TOOLS=$(PYTHON_TOOLS) ARTEFACTS=$(CURDIR)/target/outside/artefacts npm test

screenshots: tools outside-tools
	cargo build --locked
	cd $(OUTSIDE) && PETSTORE_BINARY=$(BUILT)/debug/petstore \
		ARTEFACTS=$(CURDIR)/target/outside/artefacts node screenshots.mjs

outside-tools: tools $(OUTSIDE)/node_modules/.installed target/outside/.installed

$(OUTSIDE)/node_modules/.installed: $(OUTSIDE)/package-lock.json
	cd $(OUTSIDE) && npm ci
	touch $@

target/outside/.installed: $(OUTSIDE)/requirements.txt
	python3 -m venv target/outside
	$(PYTHON_TOOLS)/pip install --quiet --disable-pip-version-check --no-compile -r $<
	touch $@

# Clients buy pets while the service is killed and restarted; afterwards every pet's
# history is checked for linearizability. Others change everything, and what readers of
# the event log got is compared with what is stored. Pass the printed SEED to repeat a run.
soak: export SOAK_SECONDS ?= 600
soak: tools
	$(MAKE) --no-print-directory postgres-versions VERSIONS="14 15 16 17 18"
	cargo test --locked --test process -- --include-ignored --nocapture sold_twice every_event
	$(MAKE) first-minute

# The release build, with its database on the disk: interrupted, resumed and undone, and compared
# with `petstore import` of the same file. `make test` runs it with fewer rows.
import-beside-till: export IMPORT_ROWS ?= 50000
import-beside-till: outside-tools
	cargo build --locked --release
	cd $(OUTSIDE) && PETSTORE_BINARY=$(BUILT)/release/petstore \
		ARTEFACTS=$(CURDIR)/target/outside/artefacts \
		node --test --test-reporter=spec console-beside-till.test.mjs

# Faults at random moments: kills, power cuts, I/O errors, database crashes, broken
# connections, hostile requests. `make test` runs a short part of each campaign.
torture: export TORTURE = 1
torture: tools
	cargo test --locked --test process -- --include-ignored --nocapture --test-threads=1 torture:: \
		a_killed_import no_race stopped_replica::
	cargo test --locked --test store -- --include-ignored --nocapture --test-threads=1 stress:: \
		reports::
	cargo test --locked --test api -- --include-ignored --nocapture --test-threads=1 searches_find

lint: lint-rust lint-language deny

# With --examples (there are none), cargo doc selects the same features of the
# dependencies as clippy does, and need not check them again.
lint-rust:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --lib --bins --examples \
		--no-deps --document-private-items

# The test of the style needs no crate, so it is compiled alone, within seconds.
lint-language:
	mkdir -p $(BUILT)
	rustc --edition 2024 --test tests/language.rs -o $(BUILT)/language
	$(BUILT)/language --quiet

deny:
	$(CARGO_INSTALL) --no-default-features cargo-deny@0.20.2
	$(CARGO_TOOLS)/cargo-deny --workspace --locked check licenses bans sources

# Needs github.com, and may fail without a change here: for a schedule, not for `lint`.
advisories:
	$(CARGO_INSTALL) --no-default-features cargo-deny@0.20.2
	$(CARGO_TOOLS)/cargo-deny --workspace --locked check advisories

# Coverage-guided, on the pinned toolchain and the locked dependencies. There is no
# unsafe code to run under a sanitizer, which would need a nightly toolchain.
FUZZ_TARGETS = json cursor request log_path photo
fuzz: FUZZ_SECONDS ?= 60
fuzz: TOOLS = g++ python3
fuzz: tools target/outside/.installed
	cargo build --locked
	$(PYTHON_TOOLS)/python $(OUTSIDE)/http1_parsers.py $(BUILT)/debug/petstore 50000 $(SEED)
	$(CARGO_INSTALL) cargo-fuzz@0.13.2
	python3 fuzz/seed.py
	cp Cargo.lock fuzz/Cargo.lock
	for target in $(FUZZ_TARGETS); do \
		$(CARGO_TOOLS)/cargo-fuzz run --sanitizer none $$target -- \
			-max_total_time=$(FUZZ_SECONDS) -max_len=20000 -timeout=60 -rss_limit_mb=1024 || exit 1; \
	done

# A debug build of these tools takes a third of the time and is fast enough.
# `cargo install` skips a tool that is already installed, and builds in a folder of its
# own, so that it does not wait for other builds.
TOOLS_ROOT = target/tools
CARGO_TOOLS = $(TOOLS_ROOT)/bin
CARGO_INSTALL = env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 \
	cargo install --quiet --debug --locked --root $(TOOLS_ROOT)

# A commit gives the same bytes in every folder: paths and times of this machine stay out.
CARGO_HOME ?= $(HOME)/.cargo
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
PATHS = $(CURDIR)=/petstore $(CARGO_HOME)=/cargo $(BUILT)=/target
REPRODUCIBLE = SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) \
	RUSTFLAGS="$(addprefix --remap-path-prefix=,$(PATHS))" \
	CFLAGS="$(addprefix -ffile-prefix-map=,$(PATHS))"

# What users install runs on every Linux with this glibc or a newer one: Zig links it with the
# symbols of that version.
GLIBC = 2.17
TARGET := $(shell rustc --version --verbose | sed -n 's/^host: //p')
PORTABLE = $(BUILT)/$(TARGET)/dist/petstore
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)

# The binary contains the list of its dependencies (cargo auditable). The bill of materials names
# the root of the repository, and covers the other crates of the workspace too.
portable: TOOLS = readelf:binutils python3
portable: export PATH := $(abspath $(TOOLS_ROOT)/zig/bin):$(abspath $(CARGO_TOOLS)):$(PATH)
portable: tools $(TOOLS_ROOT)/zig/.installed
	$(CARGO_INSTALL) cargo-auditable@0.7.7
	$(CARGO_INSTALL) cargo-cyclonedx@0.5.9
	$(CARGO_INSTALL) cargo-zigbuild@0.24.0
	$(REPRODUCIBLE) CARGO_PROFILE_DIST_STRIP=symbols CARGO=deploy/cargo-wrapper \
		cargo-auditable auditable zigbuild --profile dist --locked --bin petstore \
		--target $(TARGET).$(GLIBC)
	deploy/check-glibc $(PORTABLE) $(GLIBC)
	deploy/package-tree $(PORTABLE) target/package
	$(REPRODUCIBLE) cargo-cyclonedx cyclonedx --format json --spec-version 1.5
	sed 's|$(CURDIR)|/petstore|g' petstore.cdx.json > target/petstore.cdx.json
	rm petstore.cdx.json bench/*.cdx.json crates/*/*.cdx.json tests/support/*.cdx.json

$(TOOLS_ROOT)/zig/.installed: deploy/zig-requirements.txt
	python3 -m venv $(TOOLS_ROOT)/zig
	$(TOOLS_ROOT)/zig/bin/pip install --quiet --disable-pip-version-check --no-compile -r $<
	touch $@

package: TOOLS = dpkg-shlibdeps:dpkg-dev readelf:binutils python3
package: export PATH := $(abspath $(CARGO_TOOLS)):$(PATH)
package: portable
	$(CARGO_INSTALL) cargo-deb@3.8.0
	rm -rf target/debian
	$(REPRODUCIBLE) cargo-deb --profile dist --target $(TARGET) --no-build --no-strip --locked \
		--output target/debian/

# The files of a release, with the archive, the package and the bill of materials of this
# machine's architecture. A workflow builds them on a machine of each, and then completes the
# folder (deploy/finish-release).
RELEASE_FILES = target/release-files
PLATFORM = $(firstword $(subst -, ,$(TARGET)))-linux

release: release-platform
	deploy/finish-release $(RELEASE_FILES)
	ls -l $(RELEASE_FILES)

release-platform: package
	rm -rf $(RELEASE_FILES)
	mkdir -p $(RELEASE_FILES)
	cp target/debian/*.deb $(RELEASE_FILES)
	cp target/petstore.cdx.json $(RELEASE_FILES)/petstore-$(VERSION)-$(PLATFORM).cdx.json
	deploy/archive target/package petstore-$(VERSION)-$(PLATFORM) $(RELEASE_FILES)

release release-platform first-minute: TOOLS = dpkg-shlibdeps:dpkg-dev readelf:binutils python3
release release-platform: export SOURCE_DATE_EPOCH := $(SOURCE_DATE_EPOCH)

# The console in a browser, on what `make release` built.
first-minute: TOOLS += chromium node:nodejs npm mmdebstrap script:bsdutils
first-minute: release $(OUTSIDE)/node_modules/.installed
	cd $(OUTSIDE) && $(SUDO) env PETSTORE_BINARY=$(PORTABLE) \
		ARTEFACTS=$(CURDIR)/target/outside/artefacts node first-minute.mjs $(abspath $(RELEASE_FILES))

reproducible: tools
	set -e; work=$$(mktemp -d); trap "rm -rf $$work" EXIT; \
	for folder in $$work/one $$work/two/deeper; do \
		mkdir -p $$folder; git archive HEAD | tar -x -C $$folder; \
		env -u CARGO_TARGET_DIR $(MAKE) -C $$folder package \
			TOOLS_ROOT=$(abspath $(TOOLS_ROOT)) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH); \
		sha256sum $$folder/target/package/bin/petstore $$folder/target/debian/*.deb; \
	done; \
	cmp $$work/one/target/package/bin/petstore $$work/two/deeper/target/package/bin/petstore; \
	cmp $$work/one/target/debian/*.deb $$work/two/deeper/target/debian/*.deb; \
	echo "Both builds are identical."

# A full run writes bench/RESULTS.md; selected scenarios are only printed.
bench: TOOLS = valgrind wrk h2load:nghttp2-client npm python3 pg_ctlcluster:postgresql setpriv:util-linux
bench: tools
	python3 bench/run.py $(SCENARIOS)

round-trip: ANIMALS ?= 1000000
round-trip: TOOLS = python3 pg_ctlcluster:postgresql setpriv:util-linux
round-trip: tools
	cargo build --locked --release
	python3 bench/round_trip.py $(BUILT)/release/petstore $(BUILT)/round-trip --animals $(ANIMALS)

# Debian packages, as program[:package]. RUNLEVEL=1 keeps installed services from
# starting; the tests start their own.
TOOLS = strace curl wget openssl script:bsdutils faketime chromium node:nodejs npm python3 \
	pg_ctlcluster:postgresql setpriv:util-linux pgbouncer groff:groff-base \
	systemd-analyze:systemd haproxy valgrind
SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

tools:
	@for tool in $(TOOLS); do \
		PATH="$$PATH:/usr/sbin" command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; \
	done; \
	if [ -n "$$missing" ]; then \
		$(SUDO) apt-get update -q && $(SUDO) env RUNLEVEL=1 apt-get install -qy $$missing; \
	fi
