"""How large a function, a module and a package may be: what is larger is split by meaning."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAX_FUNCTION = 60
"""Lines of a function or Java method: signature, docstring and body."""
MAX_MODULE = 400
MAX_PACKAGE = 3000
"""Lines of the files right in a folder; those of its sub-packages count there."""

PYTHON = [
    p for top in ("src", "laboratory", "chaos", "soak", "tests") for p in (ROOT / top).rglob("*.py")
]
JAVA = [p for top in ("src", "jvm-companion") for p in (ROOT / top).rglob("*.java")]
TESTS = ROOT / "tests", ROOT / "jvm-companion" / "test"

NOISE = re.compile(
    r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*[\s\S]*?\*/"
)
"""Java's texts, characters and comments: their braces are none."""
METHOD = re.compile(r"(?P<name>\w+)\s*\([^;]*\)\s*(?:throws [\w., ]+)?$")
"""The text before the brace of a method, or of a statement such as ``if``."""
STATEMENT = re.compile(
    r"(?:\w+:\s*)?(?:if|for|while|switch|try|catch|synchronized|return|else)\b"
    r"|.*\b(?:new|record)\s+\w|.*->",
    re.DOTALL,
)
"""Other heads: statements, anonymous classes, records, lambdas."""


def lines(path):
    return len(path.read_text().splitlines())


def functions(path):
    """Yield each function with its number of lines, without those of its decorators."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


def methods(path):
    """Yield each Java method with its number of lines, by counting braces."""
    text = NOISE.sub(lambda noise: re.sub(r"[^\n]", " ", noise[0]), path.read_text())
    opened, begin = [], 0
    for at, sign in ((found.start(), found[0]) for found in re.finditer(r"[{};]", text)):
        if sign == "{":
            opened.append((text[begin:at].strip(), at - len(text[begin:at].lstrip())))
        elif sign == "}":
            head, start = opened.pop()
            found = METHOD.search(head)
            if found and not STATEMENT.match(head):
                yield found["name"], text.count("\n", start, at) + 1
        begin = at + 1


def too_long(files, measure, limit):
    return [
        f"{path.name}: {name} has {count} lines"
        for path in files
        for name, count in measure(path)
        if count > limit
    ]


def packages(files):
    sizes = Counter()
    for path in files:
        sizes[path.parent] += lines(path)
    return sizes


def product(files):
    return [path for path in files if not any(path.is_relative_to(tests) for tests in TESTS)]


def test_no_function_is_too_long():
    assert too_long(PYTHON, functions, MAX_FUNCTION) == []


def test_no_java_method_is_too_long():
    assert sum(1 for path in JAVA for _ in methods(path)) > len(JAVA), "the methods are not found"
    assert too_long(JAVA, methods, MAX_FUNCTION) == []


@pytest.mark.parametrize("files", [product(PYTHON), JAVA], ids=["python", "java"])
def test_no_module_is_too_long(files):
    assert {path.name: lines(path) for path in files if lines(path) > MAX_MODULE} == {}


@pytest.mark.parametrize("files", [product(PYTHON), JAVA], ids=["python", "java"])
def test_no_package_is_too_large(files):
    sizes = packages(files)
    assert sizes
    assert {str(folder): size for folder, size in sizes.items() if size > MAX_PACKAGE} == {}


def test_a_long_function_is_found(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("class C:\n    def long(self):\n" + "        pass\n" * MAX_FUNCTION)
    assert too_long([wrong], functions, MAX_FUNCTION) == ["wrong.py: long has 61 lines"]


def test_a_long_java_method_is_found(tmp_path):
    wrong = tmp_path / "Wrong.java"
    body = '        if (a) { b("}"); } // }\n' * (MAX_FUNCTION - 1)
    wrong.write_text(
        "class Wrong {\n    private int[] x = {1};\n"
        "    @Override\n    void fine() {}\n"
        f"    static <T> void tooLong(int a) throws E {{\n{body}    }}\n"
        "    Runnable r = () -> { fine(); };\n    record R(int a) {}\n"
        "    Object o = new Object() { int f() { return 1; } };\n}\n"
    )
    assert dict(methods(wrong)) == {"fine": 2, "tooLong": 61, "f": 1}
    assert too_long([wrong], methods, MAX_FUNCTION) == ["Wrong.java: tooLong has 61 lines"]


def test_a_large_package_is_found(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    for folder, count in ((tmp_path, 1), (inner, 1501)):
        (folder / "a.py").write_text("pass\n" * count)
        (folder / "b.py").write_text("pass\n" * count)
    assert packages(tmp_path.rglob("*.py")) == {tmp_path: 2, inner: 3002}
