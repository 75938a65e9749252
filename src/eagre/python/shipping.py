"""How functions reach the workers: pickled, with the interpreter and the path to run them."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagre.errors import SettingsError

if TYPE_CHECKING:
    from types import ModuleType

    from pyspark.sql import SparkSession


def by_value(module: ModuleType) -> None:
    """Ship a module's functions themselves, not only their names: workers need not import it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def pickled(what: Any, name: str) -> bytes:  # noqa: ANN401  (a function or a processor)
    """Pickle what the user gave.

    Raises:
        SettingsError: It cannot be.
    """
    try:
        return _dumped(what)
    except Exception as error:  # noqa: BLE001  (pickle raises whatever it likes)
        raise SettingsError(
            "FUNCTION_NOT_PICKLABLE",
            f"{name} cannot be sent to a worker: {str(error).strip() or type(error).__name__}.",
            hint="open connections, locks, sessions and models inside the function, once: for "
            "example in a helper with @functools.cache.",
        ) from None


def _dumped(what: Any) -> bytes:  # noqa: ANN401  (as above)
    """Pickle with PySpark's pickler; a function with a cache by value too, its cache empty."""
    import io
    from collections import ChainMap

    from pyspark.cloudpickle import CloudPickler

    class Pickler(CloudPickler):
        dispatch_table = ChainMap(  # noqa: RUF012  (as its base has it)
            {type(_cached): _reduced}, CloudPickler.dispatch_table
        )

    file = io.BytesIO()
    Pickler(file).dump(what)  # type: ignore[no-untyped-call]
    return file.getvalue()


@functools.cache
def _cached() -> None:
    """Stand for its type, which has no public name."""


def _reduced(cached: Any) -> Any:  # noqa: ANN401  (what pickle takes)
    again = lambda function, how: functools.lru_cache(**how)(function)  # noqa: E731  (by value)
    return again, (cached.__wrapped__, cached.cache_parameters())


def interpreter(spark: SparkSession) -> tuple[str, list[str]]:
    """Give the Python that workers run, and what they search for modules before its own."""
    if is_local(spark):
        return sys.executable, [str(Path(entry or os.curdir).resolve()) for entry in sys.path]
    stated = spark.conf.get("spark.pyspark.python", None)
    return stated or os.environ.get("PYSPARK_PYTHON") or "python3", []


def is_local(spark: SparkSession) -> bool:
    """Tell whether workers run beside the driver, in its own JVM."""
    master = str(spark.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def ship_modules(spark: SparkSession, folder: Path) -> tuple[str, ...]:
    """Send the modules that an app imported from its own folder to the executors.

    Returns:
        Their names.
    """
    own = {
        name: Path(str(module.__file__))
        for name, module in list(sys.modules.items())
        if getattr(module, "__file__", None) and _is_own(Path(str(module.__file__)), folder)
    }
    if not own or is_local(spark):
        return ()
    archive = Path(tempfile.mkdtemp(prefix="eagre-")) / "app_modules.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in own.values():
            packed.write(path, path.resolve().relative_to(folder.resolve()))
    spark.sparkContext.addPyFile(str(archive))
    return tuple(sorted(own))


def _is_own(path: Path, folder: Path) -> bool:
    inside = path.suffix == ".py" and path.resolve().is_relative_to(folder.resolve())
    return inside and "site-packages" not in path.parts
