# The verbs of this repository. `just` lists them; each works in an environment made by `just setup`.

set shell := ["bash", "-euo", "pipefail", "-c"]

_list:
    @{{just_executable()}} --list --unsorted

# install the package, editable, with all that its tests need
setup:
    python -m pip install -c constraints.txt -e '.[test,docs]'

# everything that must hold before a commit
check: lint types imports test js

# format and lint, changing nothing
lint:
    ruff format --check
    ruff check

# format, and mend what ruff can mend
fix:
    ruff format
    ruff check --fix

# mypy, strict: the package, and how its users' code is seen (tests/typing)
types:
    mypy
    [ ! -d tests/typing ] || mypy tests/typing

# the rooms and their direction
imports:
    lint-imports --no-logo

# the tests; more words go to pytest: just test tests/core -k approval
test *args:
    pytest {{args}}

# the listing of statements and tests, docs/contract.md
contract:
    python tests/statements.py
    python tests/cases.py

# the notebooks, each in a fresh kernel
notebooks *args:
    pytest --nbmake notebooks {{args}}

# take outputs and execution counts out of the notebooks
strip:
    jupyter nbconvert --log-level WARN --clear-output --inplace notebooks/*.ipynb
    ruff format notebooks

# execute copies of the notebooks and write them as pages, into gallery/
gallery:
    jupyter nbconvert --to html --execute --ExecutePreprocessor.store_widget_state=False --output-dir gallery notebooks/*.ipynb

# draw the state machine into docs/how-it-works.md (a test compares)
diagram:
    #!/usr/bin/env python
    import pathlib, re
    from agentflex_nb.core.machine import mermaid
    page = pathlib.Path("docs/how-it-works.md")
    block = f"```mermaid\n{mermaid()}\n```"
    text, drawn = re.subn(r"```mermaid\nstateDiagram-v2\n.*?\n```", lambda _: block, page.read_text("utf-8"), flags=re.DOTALL)
    if drawn != 1:
        raise SystemExit(f"{page} has {drawn} state diagrams, not one")
    page.write_text(text, "utf-8")

# test the front end and build its bundle into agentflex_nb/widgets/static
js:
    cd js && npm install --no-package-lock --no-audit --no-fund && npm test && npm run build

# a benchmark of benchmarks/, by name: just bench commit --rounds 5
bench name *args:
    python benchmarks/{{name}}.py {{args}}

# what continuous integration runs
ci:
    .ci/run

# remove what tools leave behind
clean:
    rm -rf .venv-ci .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis gallery js/node_modules
