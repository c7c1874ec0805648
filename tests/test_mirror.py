"""Each source module has its test file: agentflex_nb/core/approval.py is tested in tests/core/test_approval.py."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE, TESTS = ROOT / "agentflex_nb", ROOT / "tests"

# source module -> why it has no test file of its own
EXCEPTIONS: dict[str, str] = {
    "core/effects.py": "three values without behaviour; tests/core/test_advance.py says when each is asked for",
    "core/steps.py": "how steps open and end is told in tests/core/test_advance.py",
    "core/story.py": "lives inside one call of advance, and is seen through it: tests/core/test_advance.py",
    "core/turn.py": "the state itself; every story of tests/core reads it, tests/store/test_codec.py keeps all of it",
}


def modules() -> list[Path]:
    return sorted(
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" and path.read_text("utf-8").strip()
    )


def mirror_of(module: Path) -> Path:
    return TESTS / module.with_name(f"test_{module.stem.strip('_')}.py")


def test_every_module_has_its_test_file():
    missing = [
        f"agentflex_nb/{module} -> tests/{mirror_of(module).relative_to(TESTS)}"
        for module in modules()
        if str(module) not in EXCEPTIONS and not mirror_of(module).exists()
    ]

    assert missing == []


def test_no_exception_is_out_of_date():
    known = {str(module) for module in modules()}
    stale = [name for name in EXCEPTIONS if name not in known or mirror_of(Path(name)).exists()]

    assert stale == []
