import pytest

from eagre.errors import JvmError
from eagre.jvm import java
from eagre.jvm.spark_home import spark_jars

WHOLE = "java.base java.sql jdk.incubator.vector"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with only the JDKs that a test installs."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "USUAL_PLACES", (str(tmp_path / "jvm" / "*"),))

    def install(name, release, modules=WHOLE):
        home = tmp_path / "jvm" / name
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").touch()
        (home / "release").write_text(f'JAVA_VERSION="{release}"\nMODULES="{modules}"\n')
        return home

    return install


def test_the_newest_suitable_java_is_used(machine):
    machine("jdk-17", "17.0.15")
    newest = machine("jdk-25", "25.0.3")
    machine("jdk-8", "1.8.0_402", modules="")
    machine("jdk-24", "24.0.1")
    machine("jre-25", "25.0.9", modules="java.base")
    assert java.find_java().home == newest


def test_java_home_overrides_the_search(machine, monkeypatch):
    older = machine("jdk-17", "17.0.15")
    machine("jdk-25", "25.0.3")
    monkeypatch.setenv("JAVA_HOME", str(older))
    assert java.find_java().version == 17


def test_java_on_the_path_is_found(machine, monkeypatch, tmp_path):
    home = machine("jdk-21", "21.0.2")
    monkeypatch.setattr(java, "USUAL_PLACES", ())
    (home / "bin" / "java").chmod(0o755)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "java").symlink_to(home / "bin" / "java")
    assert java.find_java().home == home


@pytest.mark.parametrize(
    ("release", "modules", "code", "message"),
    [
        ("11.0.2", WHOLE, "JAVA_UNSUPPORTED", "is version 11.0.2"),
        ("1.8.0_402", WHOLE, "JAVA_UNSUPPORTED", "is version 1.8.0_402"),
        ("17.0.1", "java.base", "JAVA_TRIMMED", "without the module jdk.incubator.vector"),
    ],
)
@pytest.mark.parametrize("by_java_home", [True, False])
def test_an_unsuitable_java_is_refused(
    machine, monkeypatch, release, modules, code, message, by_java_home
):
    home = machine("only", release, modules)
    if by_java_home:
        monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(JvmError) as refused:
        java.find_java()
    assert refused.value.code == code
    assert str(home) in str(refused.value)
    assert message in str(refused.value)
    assert "install a JDK 17, 21 or 25" in refused.value.hint


def test_a_build_uses_the_newest_java_with_a_compiler(machine):
    older = machine("jdk-17", "17.0.15")
    (older / "bin" / "javac").touch()
    newer = machine("jre-25", "25.0.3")
    assert java.find_java().home == newer
    assert java.find_jdk().home == older
    (older / "bin" / "javac").unlink()
    with pytest.raises(JvmError, match="JDK_NOT_FOUND: building Eagre needs a Java compiler"):
        java.find_jdk()


def test_no_java_at_all(machine):
    with pytest.raises(JvmError, match="JAVA_NOT_FOUND: no Java was found"):
        java.find_java()


def test_a_java_home_without_java_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JvmError, match="it has no bin/java"):
        java.find_java()


def test_a_java_without_a_release_file_is_inspected(machine):
    home = machine("plain", "17.0.15")
    (home / "release").unlink()
    answers = 'openjdk version "17.0.9"'
    script = f"#!/bin/sh\n[ $1 = -version ] && echo '{answers}' >&2 || echo java.base\n"
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    inspected = java.inspect_java(home)
    assert (inspected.release, inspected.trimmed) == ("17.0.9", True)


def test_an_older_spark_is_refused(monkeypatch, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.1.2.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(
        JvmError, match=r"SPARK_UNSUPPORTED: Spark in .* is 4\.1\.2, and Eagre needs 4\.3"
    ):
        spark_jars()


def test_a_missing_spark_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(JvmError, match="SPARK_NOT_FOUND"):
        spark_jars()
