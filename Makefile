# Each target first sets up what it needs and lacks; see packaging/setup.sh. ARGS="..." hands more to the last command of test or lock.
.DEFAULT_GOAL := help
.PHONY: help run test lint lock clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

run:  ## open Sottovoce; with no screen, dictate the sample clip in this terminal
	@packaging/setup.sh run
	@.venv/bin/sottovoce || { status=$$?; [ $$status -eq 2 ] || exit $$status; \
		echo "Dictating the sample clip here instead:"; \
		exec .venv/bin/sottovoce live --input resources/sample.flac; }

test: lint  ## check style and types, then run every test
	PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/python -m pytest $(ARGS)

lint:  ## check style and types only
	@packaging/setup.sh test
	.venv/bin/python -m ruff check
	.venv/bin/python -m mypy

# The test lock first, and the run lock bound to it, so that both name the same versions.
lock:  ## bring the locks up to date with pyproject.toml (needs uv; ARGS=--upgrade takes newer versions)
	$(LOCK) --extra base --group test --group build --output-file packaging/lock-test.txt
	$(LOCK) --group build --constraints packaging/lock-test.txt --output-file packaging/lock-run.txt

LOCK = UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile pyproject.toml --no-config --quiet --universal \
	--python-version 3.11 --only-binary :all: --generate-hashes --no-emit-index-url $(ARGS)

clean:  ## remove all that the other targets made
	rm -rf .venv .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist
	find . -name __pycache__ -prune -exec rm -rf {} +
