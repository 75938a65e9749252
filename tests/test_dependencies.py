"""Every third-party import is a declared dependency of the package or of a project."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import eagre
from eagre.templates import folder, projects

ROOT = Path(__file__).parent.parent
PACKAGE = Path(eagre.__file__).parent
STATED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"confluent-kafka": "confluent_kafka", "hdrhistogram": "hdrh"}
"""The module of a distribution, where the name differs."""
EXEMPT = {
    "eagre_bench": "the same wheel",
    "eagre_worker": "in the companion jar, and beside the package",
    "py4j": "PySpark's own dependency, whose version PySpark chooses",
    "pytest": "the plugin is imported by pytest only",
}


def requirements(lines):
    return [Requirement(line) for line in lines]


def modules(lines):
    """Return the modules of requirements."""
    return {MODULES.get(r.name.lower(), r.name.lower().replace("-", "_")) for r in lines}


def imported(path):
    """Yield the top-level modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).split(".")[0]


def foreign(files, local=()):
    """Return third-party modules, each with the files that import it."""
    importers = {}
    for path in files:
        for name in set(imported(path)) - set(sys.stdlib_module_names) - {"eagre", *local}:
            importers.setdefault(name, []).append(path.name)
    return importers


def package_files():
    """Return the files of the package without the benchmark and the project templates."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] != "bench" and not (parts[0] == "templates" and len(parts) > 2):
            yield path


def test_every_import_of_the_package_is_a_dependency():
    imports = foreign(package_files())
    known = modules(requirements(STATED["dependencies"])) | set(EXEMPT)
    assert {name: files for name, files in imports.items() if name not in known} == {}


def test_every_dependency_is_imported():
    everything = foreign(sorted(PACKAGE.rglob("*.py")))
    assert modules(requirements(STATED["dependencies"])) <= set(everything)


def test_an_undeclared_import_is_detected(tmp_path):
    (tmp_path / "new.py").write_text("def late():\n    import numpy.linalg\n")
    assert foreign([tmp_path / "new.py"]) == {"numpy": ["new.py"]}


def test_extras_name_each_other_and_exist():
    extras = STATED["optional-dependencies"]
    for lines in extras.values():
        for requirement in requirements(lines):
            if requirement.name == STATED["name"]:
                assert requirement.extras <= set(extras)


@pytest.mark.parametrize("use_case", projects())
def test_a_project_declares_its_imports(use_case):
    place = folder(use_case)
    project = tomllib.loads((place / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {})
    base = requirements(project["dependencies"])
    [ours] = [r for r in base if r.name == "eagre"]
    assert ours.specifier.contains(eagre.__version__), "an installed Eagre must satisfy it"
    assert project["requires-python"] == STATED["requires-python"]

    local = {path.stem for path in place.glob("*.py")}
    brought = modules(base) | modules(requirements(STATED["dependencies"]))
    scripts = foreign(sorted(place.glob("*.py")), local)
    served = modules(requirements(extras.get("serve", [])))
    assert set(scripts) <= brought | served
    assert served <= set(scripts)
    tests = foreign([*sorted(place.glob("*.py")), *sorted(place.glob("tests/*.py"))], local)
    assert set(tests) <= brought | modules(requirements(extras["test"]))


@pytest.mark.parametrize(
    "page", ["README.md", "docs/tutorials/install.md", "docs/tutorials/first-pipeline.md"]
)
def test_the_docs_name_the_wheel_of_this_version(page):
    named = re.findall(r"eagre-([\w.]+)-py3-none-any\.whl", (ROOT / page).read_text())
    assert set(named) == {eagre.__version__}


def test_the_changelog_has_this_version_first():
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert versions[1][0] == eagre.__version__
    assert all(date for _, date in versions[1:])
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (\w+)$", section, re.MULTILINE)
        assert kinds == [k for k in ("Added", "Changed", "Fixed", "Removed") if k in kinds]
