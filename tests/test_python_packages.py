"""The packages that Python functions need on executors."""

import functools
import json
import subprocess
import sys
from itertools import count
from types import ModuleType

import numpy as np
import psutil
import pytest

import eagre as eg
from eagre.python import packages
from eagre.python.eagre_worker import probe
from eagre.python.shipping import by_value, modules_of, pickled

ALWAYS = {"pyspark"}
NUMBERS = count()


@pytest.fixture(autouse=True)
def no_functions(monkeypatch):
    monkeypatch.setattr(packages, "_MODULES", {})


def needs(function, shipped=()):
    name = f"function {next(NUMBERS)}"
    pickled(function, name)
    return {package for package, users in packages.needed(dict(shipped)).items() if name in users}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Load a module from a folder of its own, as an app's or as one that it imports."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(name, text):
        file = tmp_path / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text)
        loaded = ModuleType(name)
        loaded.__file__ = str(file)
        monkeypatch.setitem(sys.modules, name, loaded)
        exec(compile(text, str(file), "exec"), vars(loaded))  # noqa: S102
        return loaded

    return load


def app(module, text):
    loaded = module("an_app", text)
    by_value(loaded)
    return loaded


def test_a_function_needs_what_it_refers_to_and_not_what_its_file_imports(module):
    text = "import json, numpy, psutil\ndef f(x): return json.dumps(numpy.abs(x))\n"
    assert needs(app(module, text).f) == {"numpy", *ALWAYS}


def test_names_values_and_classes_of_packages_are_needed(module):
    text = (
        "from psutil import Process\nfrom numpy import array\nmodel = array([1])\n"
        "class P:\n    def run(self): return Process, model\n"
    )
    assert needs(app(module, text).P()) == {"numpy", "psutil", *ALWAYS}
    assert needs(functools.partial(psutil.pid_exists)) == {"psutil", *ALWAYS}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("import joblib.hashing", {"joblib"}),
        ("from joblib import load; yield load", {"joblib"}),
        ("import os, json", set()),
        ("try:\n  import orjson\n except ImportError:\n  import ujson", set()),
        ("def inner():\n  import joblib\n return inner", {"joblib"}),
    ],
)
def test_imports_in_functions_count_unless_they_may_fail(module, body, found):
    text = f"def f(x):\n {body}\n"
    assert needs(app(module, text).f) == {*found, *ALWAYS}


def test_a_cached_function_and_a_processor_need_no_eagre(module):
    text = "import functools\n@functools.cache\ndef f():\n import joblib\n return joblib\n"
    assert needs(app(module, text).f) == {"joblib", *ALWAYS}
    text = (
        "import eagre as eg\n"
        "from pyspark.sql.streaming.stateful_processor import StatefulProcessor\n"
        "@eg.udf('int')\ndef f(x): return x\n"
        "class Count(StatefulProcessor):\n"
        "    def init(self, handle): ...\n"
        "    def handleInputRows(self, key, rows, timerValues): return f(1)\n"
        "    def close(self): ...\n"
    )
    assert needs(app(module, text).Count()) == ALWAYS
    assert needs(app(module, "import eagre as eg\ndef f(): return eg.udf\n").f) == {
        "eagre",
        *ALWAYS,
    }


def test_shipped_modules_are_followed_to_what_they_import(module, tmp_path):
    module("kit.deep", "import psutil\ntry:\n    import orjson\nexcept ImportError: pass\n")
    module("kit", "from kit import deep\n")
    helper = "import kit.deep\nfrom typing import TYPE_CHECKING\nimport numpy as np\n"
    module("helper", helper + "if TYPE_CHECKING:\n    import pandas\ndef g(x): return x\n")
    module("unused", "import uuid, hypothesis\n")
    function = app(module, "import unused\nfrom helper import g\ndef f(x): return g(x)\n").f
    shipped = modules_of(tmp_path)
    assert {"helper", "kit.deep", "unused", "an_app"} <= set(shipped)
    assert needs(function, shipped) == {"numpy", "psutil", *ALWAYS}


def test_relative_imports_of_a_package_are_followed(tmp_path):
    (tmp_path / "__init__.py").write_text("from . import a\n")
    (tmp_path / "a.py").write_text("from .b import c\nfrom .. import outside\n")
    (tmp_path / "b.py").write_text("import numpy\n")
    files = {"p.q": "__init__.py", "p.q.a": "a.py", "p.q.b": "b.py"}
    shipped = {name: tmp_path / file for name, file in files.items()}
    assert packages.third_party({"p.q"}, shipped) == {"p", "numpy"}


def test_packages_name_the_functions_that_need_them():
    pickled(np.abs, "first")
    pickled(np.abs, "second")
    pickled(len, "third")
    found = packages.needed({})
    assert found == {"numpy": ["first", "second"], "pyspark": ["first", "second", "third"]}


def test_without_functions_nothing_is_needed():
    assert packages.needed({}) == {}
    assert eg.udf(np.abs, "int") is not None
    assert packages.needed({}) == {}


def test_the_probe_reports_the_version_and_what_is_missing():
    names = ["numpy", "json", "no_such_package", "no_such.package"]
    done = subprocess.run(
        [sys.executable, probe.__file__, *names], capture_output=True, text=True, check=True
    )
    version = "{}.{}".format(*sys.version_info)
    expected = {"version": version, "missing": ["no_such_package", "no_such.package"]}
    assert json.loads(done.stdout.splitlines()[-1]) == expected
