"""Allowed imports between the parts of the package (CONTRIBUTING.md has the table)."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import eagre
from eagre.cli import Commands
from eagre.errors import EagreError

PACKAGE = Path(eagre.__file__).parent

LAYERS = [
    {"errors"},
    {"config", "files", "waiting", "reader"},
    {"jvm"},
    {"broker"},
    {"profile", "slo"},
    {"session"},
    {"connectors"},
    {"sinks", "operators", "python"},
    {"pipeline"},
    {"commit", "latency"},
    {"delivery"},
    {"preflight"},
    {"runtime", "testing"},
    {"templates", "startup_training"},
    {"cluster", "dashboard", "trial"},
    {"cli"},
]
OUTSIDE = {"eagre_bench", "laboratory", "chaos", "soak"}
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def part(path):
    """Return the part of the package that a file belongs to; None for ``__init__`` and apps."""
    relative = path.relative_to(PACKAGE).parts
    app = relative[0] == "templates" and len(relative) > 2
    if relative in (("__init__.py",), ("__main__.py",)) or app:
        return None
    return relative[0].removesuffix(".py")


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eagre."):
            yield node.module.split(".")[1]
        elif isinstance(node, ast.ImportFrom) and node.module == "eagre":
            yield from (a.name for a in node.names if a.name in RANK)
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("eagre."))


def wrong_imports(files):
    return [
        f"{path.relative_to(PACKAGE)} imports {other}"
        for path in files
        if (importer := part(path))
        for other in imported(path)
        if other != importer and RANK[other] >= RANK[importer]
    ]


def test_parts_import_only_lower_parts():
    files = sorted(PACKAGE.rglob("*.py"))
    assert wrong_imports(files) == []
    assert {part(path) for path in files} - {None} <= set(RANK)


def test_a_wrong_import_is_detected(monkeypatch):
    monkeypatch.setitem(RANK, "errors", len(LAYERS))
    assert "config.py imports errors" in wrong_imports(sorted(PACKAGE.rglob("*.py")))


def outside(path):
    """Yield the packages outside the product that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        named = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from {name.split(".")[0] for name in named} & OUTSIDE


def test_the_product_imports_neither_benchmark_laboratory_chaos_nor_soak(tmp_path):
    imports = {path: list(outside(path)) for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in imports.items() if names} == {}
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import chaos.load, soak.load\ndef late():\n    from eagre_bench.results import links\n"
    )
    assert sorted(outside(wrong)) == ["chaos", "eagre_bench", "soak"]


def executed(node):
    """Yield the imports that run when a module is imported: not those for types or in functions."""
    for child in ast.iter_child_nodes(node):
        types_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        if types_only or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from executed(child)


def named(imports, package):
    """Yield the modules that an import may mean, relative ones by their package."""
    if isinstance(imports, ast.Import):
        yield from (alias.name for alias in imports.names)
        return
    above = package[: len(package) - imports.level + 1] if imports.level else []
    base = ".".join([*above, *filter(None, [imports.module])])
    for alias in imports.names:
        yield f"{base}.{alias.name}"
        yield base


def module_imports(root):
    """Return the modules below a folder that each of them imports."""
    modules = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): path
        for path in root.rglob("*.py")
        if path.name != "__init__.py"
    }
    return {
        name: {
            other
            for imports in executed(ast.parse(path.read_text()))
            for other in named(imports, name.split(".")[:-1])
            if other in modules and other != name
        }
        for name, path in modules.items()
    }


@pytest.mark.parametrize("package", ["eagre", "eagre_bench", "chaos", "laboratory", "soak"])
def test_no_module_imports_itself_through_others(package):
    folder = PACKAGE.parent if package.startswith("eagre") else PACKAGE.parents[1]
    imports = module_imports(folder / package)
    assert package == "laboratory" or any(imports.values()), "no imports are found"
    TopologicalSorter(imports).prepare()


def test_a_cycle_of_imports_is_found(tmp_path):
    root = tmp_path / "wrong"
    (root / "deep").mkdir(parents=True)
    (root / "a.py").write_text("from wrong.deep import b\n")
    (root / "deep" / "b.py").write_text("from .c import x\n")
    lazy = "if TYPE_CHECKING:\n    import wrong.a\ndef late():\n    import wrong.a\n"
    (root / "deep" / "c.py").write_text(lazy)
    TopologicalSorter(module_imports(root)).prepare()
    (root / "deep" / "c.py").write_text("import wrong.a\n")
    with pytest.raises(CycleError):
        TopologicalSorter(module_imports(root)).prepare()


def test_only_one_package_uses_py4j():
    private = re.compile(r"\._(?:jvm|jsq|jdf|jsparkSession)\b|\b(?:import|from) py4j\b")
    users = {
        str(path.parent.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if private.search(path.read_text())
    }
    assert users == {"jvm/gateway"}


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("eagre", "pyspark py4j confluent_kafka rich click psutil hdrh"),
        ("eagre.cli", "pyspark py4j confluent_kafka eagre_bench"),
        ("eagre.cli.use_cases.demo", "eagre_bench matplotlib pandas jinja2"),
        ("eagre_bench.cli", "matplotlib pandas jinja2"),
    ],
)
def test_imports_are_fast(module, heavy):
    code = f"import sys, {module}; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("missing", ["eagre_bench", "eagre_bench.rates"])
def test_a_missing_benchmark_package_is_named(monkeypatch, missing):
    for name in [name for name in sys.modules if name.startswith("eagre_bench")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(EagreError, match="BENCH_NOT_INSTALLED") as caught:
        Commands().get_command(None, "bench")
    assert missing in caught.value.problem
    assert 'pip install "eagre[bench]"' in caught.value.hint


def test_the_public_names_are_sorted_and_exist():
    assert eagre.__all__ == sorted(eagre.__all__)
    assert all(hasattr(eagre, name) for name in eagre.__all__)
    assert callable(eagre.pipeline)
    assert callable(eagre.session)
