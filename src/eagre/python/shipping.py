"""Ships functions to the workers: pickling, interpreter and module path."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.errors import SettingsError
from eagre.python.packages import Imports, remember

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession


def by_value(module: ModuleType) -> None:
    """Pickle a module's functions by value, so that workers do not need to import it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def pickled(code: Any, name: str) -> bytes:  # noqa: ANN401  (a function or a processor)
    """Pickle the user's function or processor, and remember the modules that it needs.

    Raises:
        SettingsError: It cannot be pickled.
    """
    imports = Imports()
    try:
        dumped = _dumped(code, imports)
    except Exception as error:  # noqa: BLE001  (pickle may raise anything)
        raise SettingsError(
            "FUNCTION_NOT_PICKLABLE",
            f"{name} cannot be sent to a worker: {str(error).strip() or type(error).__name__}.",
            hint="create connections, locks, sessions and models inside the function, once: for "
            "example in a function with @functools.cache.",
        ) from None
    remember(name, imports)
    return dumped


def _dumped(code: Any, imports: Imports) -> bytes:  # noqa: ANN401  (as above)
    """Pickle with PySpark's pickler; also pickle cached functions by value, with an empty cache."""
    import io
    from collections import ChainMap

    from pyspark.cloudpickle import CloudPickler

    class Pickler(CloudPickler):
        dispatch_table = ChainMap(  # noqa: RUF012  (as in the base class)
            {type(_cached): _reduced}, CloudPickler.dispatch_table
        )

        def reducer_override(self, value: object) -> Any:  # noqa: ANN401  (pickle's protocol)
            reduced = super().reducer_override(value)  # type: ignore[no-untyped-call]
            imports.see(value, by_name=reduced is NotImplemented)
            return reduced

    file = io.BytesIO()
    Pickler(file).dump(code)  # type: ignore[no-untyped-call]
    return file.getvalue()


@functools.cache
def _cached() -> None:
    """Provide the type of cached functions, which has no public name."""


def _reduced(cached: Any) -> Any:  # noqa: ANN401  (pickle's protocol)
    restore = lambda function, params: functools.lru_cache(**params)(function)  # noqa: E731  (by value)
    return restore, (cached.__wrapped__, cached.cache_parameters())


def interpreter(spark: SparkSession) -> tuple[str, list[str]]:
    """Return the workers' Python, and the folders to put before its module search path."""
    if is_local(spark):
        return sys.executable, [str(Path(entry or os.curdir).resolve()) for entry in sys.path]
    configured = spark.conf.get("spark.pyspark.python", None)
    return configured or os.environ.get("PYSPARK_PYTHON") or "python3", []


def is_local(spark: SparkSession) -> bool:
    """Return whether the executors run in the driver's JVM."""
    master = str(spark.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def ship_modules(spark: SparkSession, folder: Path) -> dict[str, Path]:
    """Send the modules that an app imports from its folder to the executors.

    Returns:
        Their names and files.
    """
    modules = modules_of(folder)
    if not modules or is_local(spark):
        return {}
    archive = Path(tempfile.mkdtemp(prefix="eagre-")) / "app_modules.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in modules.values():
            packed.write(path, path.resolve().relative_to(folder.resolve()))
    spark.sparkContext.addPyFile(str(archive))
    return modules


def modules_of(folder: Path) -> dict[str, Path]:
    """Return the modules that this process has imported from a folder, and their files."""
    return {
        name: Path(str(module.__file__))
        for name, module in list(sys.modules.items())
        if getattr(module, "__file__", None) and _belongs_to(Path(str(module.__file__)), folder)
    }


def _belongs_to(path: Path, folder: Path) -> bool:
    inside = path.suffix == ".py" and path.resolve().is_relative_to(folder.resolve())
    return inside and "site-packages" not in path.parts
