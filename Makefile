# Every target sets up what it needs first (tools/setup.sh); a second run finds it done.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PY := .venv/bin/python

.PHONY: help setup demo test test-slow test-all lint platforms quick fuzz bench gpu docs wheel npm install-c clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-9s %s\n", $$1, $$2 }'

setup: ## everything the other targets need, with the package in .venv/
	@tools/setup.sh system build test lint docs demo package

demo: ## a real Sentinel-2 scene: live datasets, reads from S3, many writers; ends with the paths of the pictures
	@tools/setup.sh system test demo package s3
	@$(PY) examples/ndvi_demo.py

test: ## Rust's tests and the fast ones of Python, then the time they took
	@tools/test.sh fast

test-slow: ## the other tests of Python: forty minutes on two cores
	@tools/test.sh slow

test-all: ## every test, and more of the random ones: 20,000 random histories of stores (1.5 hours)
	@tools/test_all.sh

lint: ## formatting, lints, types, layering, licences, advisories
	@tools/setup.sh system test lint package
	@tools/lint.sh

platforms: ## type checks for other systems, tests for aarch64 under QEMU and for Windows under Wine (half an hour, then minutes)
	@tools/setup.sh system emulators platforms package
	@$(PY) tools/platforms.py check
	@$(PY) tools/platforms.py run

quick: ## the inner loop: formatting, cargo check, fast tests
	@tools/setup.sh test lint package
	@tools/quick.sh

fuzz: ## COUNT damaged copies of fuzz/corpus through the reader, from number FIRST on
	@source tools/env.sh && CARGO_TARGET_DIR=fuzz/target cargo run --locked --release --manifest-path fuzz/Cargo.toml -- \
		--count $(or $(COUNT),20000) --first $(or $(FIRST),0) --save fuzz/target/mutants fuzz/corpus

bench: ## the cost of live datasets against plain reads
	@tools/setup.sh system test package
	@$(PY) bench/live_datasets.py

gpu: ## on a machine with a GPU: the tests for CUDA there, compute-sanitizer, and the figures of docs/results/gpu.md
	@tools/setup.sh system test gpu package
	@tools/gpu.sh

docs: ## the site, in site/
	@tools/setup.sh docs
	@$(PY) -m mkdocs build --strict

wheel: ## the source archive and the wheel for publication, in dist/, tried in clean environments (a quarter of an hour)
	@tools/setup.sh wheel
	@$(PY) tools/make_wheel.py $(STEPS)

npm: ## the npm package for browsers and Node, packed into dist/ (two minutes)
	@tools/setup.sh build
	@$(PY) tools/make_npm.py --pack dist

install-c: ## the library for C, its headers, and files for pkg-config and CMake, in PREFIX (/usr/local)
	@tools/setup.sh build
	@$(PY) tools/install_c.py --prefix "$(or $(PREFIX),/usr/local)"

clean: ## removes .venv/, built artefacts and reports (cargo's output stays)
	rm -rf .venv site dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf python/hyperchunk/_core*.so python/hyperchunk/plugins/*.so python/hyperchunk/plugins/worker-python
	rm -rf python/hyperchunk/libexec python/hyperchunk/connector
	rm -f bindings/javascript/hyperchunk.wasm bindings/javascript/LICENSE-*
