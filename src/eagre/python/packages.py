"""The packages that Python functions need on executors, as far as it is certain.

A worker imports the modules that a pickled function refers to by name; those of the app's folder
are shipped, and import others. An import within ``try`` may fail, and needs nothing.
"""

from __future__ import annotations

import ast
import copyreg
import dis
import sys
from importlib.util import resolve_name
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WORKERS_NEED = "pyspark"
_MODULES: dict[str, set[str]] = {}
"""The modules that each function needs, of all that this process has pickled."""


class Imports:
    """The modules that a worker imports for a function; a pickler shows it each value."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def see(self, value: object, *, by_name: bool) -> None:
        """Record the modules that a value needs.

        Args:
            value: A part of the function.
            by_name: Whether it is pickled as a name, if it is a function or a class.
        """
        if isinstance(value, CodeType):
            self.modules.update(_imported_in(value))
        elif isinstance(value, ModuleType):
            self.modules.add(value.__name__)
        elif by_name and isinstance(value, type | FunctionType | BuiltinFunctionType):
            self._module_of(value)
        elif type(value) in copyreg.dispatch_table:  # such as the functions of NumPy
            self._module_of(type(value))

    def _module_of(self, named: type | FunctionType | BuiltinFunctionType) -> None:
        self.modules.update({named.__module__} & sys.modules.keys())


def remember(function: str, imports: Imports) -> None:
    """Record that this process has pickled a function."""
    _MODULES.setdefault(function, set()).update(imports.modules)


def needed(shipped: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the packages that the functions pickled so far need, and which functions need each.

    Args:
        shipped: The modules that are sent to executors, and their files.

    Returns:
        Empty if no function was pickled.
    """
    users: dict[str, list[str]] = {}
    for function, modules in sorted(_MODULES.items()):
        for package in {WORKERS_NEED, *third_party(modules, shipped)}:
            users.setdefault(package, []).append(function)
    return dict(sorted(users.items()))


def third_party(modules: set[str], shipped: Mapping[str, Path]) -> set[str]:
    """Return the packages that modules belong to, or that they import if they are shipped."""
    packages: set[str] = set()
    seen: set[str] = set()
    left = set(modules)
    while left:
        name = left.pop()
        seen.add(name)
        package = name.partition(".")[0]
        if name in shipped:
            imports = {name.rpartition(".")[0] or name, *_imported_by(name, shipped)}
            left |= imports - seen
        elif package not in sys.stdlib_module_names and package not in shipped:
            packages.add(package)
    return packages


def _imported_by(module: str, shipped: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules that a shipped module always imports."""
    file = shipped[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for statement in ast.parse(file.read_bytes()).body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            base = resolve_name("." * statement.level + (statement.module or ""), package)
            parts = [f"{base}.{alias.name}" for alias in statement.names]
            yield from (base, *(part for part in parts if part in shipped))


def _imported_in(code: CodeType) -> Iterator[str]:
    """Yield the modules that a function imports when it runs, except within ``try`` and ``with``.

    The code of a generator is protected as a whole, which is no ``try`` of the user's.
    """
    bytecode = dis.Bytecode(code)
    protected = [
        range(entry.start, entry.end)
        for entry in bytecode.exception_entries  # type: ignore[attr-defined]
        if entry.depth or not entry.lasti
    ]
    for instruction in bytecode:
        if instruction.opname == "IMPORT_NAME" and not any(
            instruction.offset in block for block in protected
        ):
            yield str(instruction.argval)
