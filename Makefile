# make battery   measure the quick tasks on two models that run on this machine, and print the gap table
# make test      run the tests, the linters, the type checker and the import rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: battery test test-oldest weights agents lint clean

battery: $(VENV)/battery.stamp weights
	$(BIN)/pytest benchmarks/ -m quick

test: $(VENV)/test.stamp weights agents lint test-oldest
	$(BIN)/pytest tests -n 2 --dist loadfile

# The plugin's tests with the lowest versions that pyproject.toml allows, pytest 9.0 among them.
test-oldest: $(VENV)-oldest/stamp
	$(VENV)-oldest/bin/pytest tests/plugin --deselect tests/plugin/test_local_models.py -n 2 --dist loadfile

lint: $(VENV)/test.stamp
	$(BIN)/ruff format --check src tests scorers bench conftest.py
	$(BIN)/ruff check src tests scorers bench conftest.py
	$(BIN)/mypy
	$(BIN)/lint-imports

# Gemma's terms of use are printed before its weights are fetched; running this agrees to them (see README).
weights: $(VENV)/battery.stamp
	@$(BIN)/battery local fetch smollm2-135m gemma3-270m --accept-terms

# Real agents, for the tests that drive them against a scripted model; without npm those are skipped, and say so.
agents: $(VENV)/test.stamp
	@if command -v npm >/dev/null; then $(BIN)/battery agents install pi codex; \
	else echo "npm is not here: tests of real agents are skipped"; fi

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/battery.stamp: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[xdist,local]'
	@touch $@

$(VENV)/test.stamp: $(VENV)/battery.stamp
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)-oldest/stamp: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints-oldest.txt \
	    --editable '.[xdist,local,agents,test]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest
