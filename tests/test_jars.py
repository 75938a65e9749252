import fcntl
import shutil
import xml.etree.ElementTree as ET
import zipfile
from importlib.resources import files
from typing import get_args

import pytest

from eagre import __version__
from eagre.errors import JvmError
from eagre.jvm import companion, jars


@pytest.fixture
def cached():
    """The folders of jars that ``make setup`` has fetched."""
    return {jar_set: jars.folder(jar_set) for jar_set in jars.JAR_SETS}


@pytest.fixture
def empty_cache(cached, monkeypatch, tmp_path):
    monkeypatch.setenv("EAGRE_CACHE", str(tmp_path / "cache"))
    return cached


def coordinates():
    root = ET.fromstring((files("eagre.jvm") / "ivy.xml").read_text())  # noqa: S314  (our own)
    return [(d.get("conf").split("->")[0], d.attrib) for d in root.iter("dependency")]


def test_the_lock_file_matches_ivy_xml():
    named = {(jar_set, f"{d['name']}-{d['rev']}.jar") for jar_set, d in coordinates()}
    sets = get_args(jars.JarSet)
    locked = {(jar_set, jar.name) for jar_set in sets for jar in jars.lock(jar_set)}
    assert named == locked
    assert all(d["transitive"] == "false" for _, d in coordinates())


def test_the_package_contains_no_repository_address():
    for name in ("ivy.xml", "ivysettings.xml", "jars.lock"):
        assert "://" not in (files("eagre.jvm") / name).read_text()


@pytest.mark.parametrize("nested", [True, False])
def test_jars_can_be_copied_from_a_folder_without_a_network(empty_cache, tmp_path, nested):
    offline = tmp_path / "offline"
    shutil.copytree(empty_cache["spark"], offline / "spark" if nested else offline)
    messages = []
    jars.fetch("spark", messages.append, offline)
    jars.verify("spark")
    assert messages == [f"copying 5 spark jars from {offline}"]
    assert [path.parent for path in jars.class_path("spark")] == [jars.folder("spark")] * 5


def test_only_one_process_fetches_at_a_time(empty_cache, monkeypatch):
    monkeypatch.setenv("EAGRE_JARS", str(empty_cache["spark"]))
    messages = []

    def say(text):
        """Release the cache when the other process prints that it waits."""
        messages.append(text)
        held.close()

    jars.cache_dir().mkdir()
    held = (jars.cache_dir() / "fetch.lock").open("w")
    fcntl.flock(held, fcntl.LOCK_EX)
    jars.fetch("spark", say)
    assert messages[0] == "waiting for another process that is fetching jars"
    assert messages[1].startswith("copying 5 spark jars")
    jars.verify("spark")


def test_a_corrupt_jar_is_refused(empty_cache, tmp_path):
    offline = tmp_path / "offline"
    shutil.copytree(empty_cache["spark"], offline)
    pool = next(offline.glob("commons-pool2-*.jar"))
    content = pool.read_bytes()
    pool.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(JvmError, match=r"JAR_CHANGED: .*commons-pool2"):
        jars.fetch("spark", str, offline)
    pool.write_bytes(content)
    jars.fetch("spark", str, offline)
    (jars.folder("spark") / pool.name).write_bytes(content + b"x")
    with pytest.raises(JvmError, match="Eagre does not use it"):
        jars.class_path("spark")


def test_a_jar_missing_from_the_folder_is_named(empty_cache, tmp_path):
    (tmp_path / "offline").mkdir()
    with pytest.raises(JvmError, match=r"JAR_MISSING: commons-pool2.* is not in .*offline"):
        jars.fetch("spark", str, tmp_path / "offline")


def test_ivy_uses_the_repository_of_the_user(empty_cache, tmp_path, monkeypatch):
    repository = tmp_path / "repository"
    for jar_set, d in coordinates():
        if jar_set == "spark":
            place = repository / d["org"].replace(".", "/") / d["name"] / d["rev"]
            place.mkdir(parents=True)
            name = f"{d['name']}-{d['rev']}.jar"
            shutil.copy(empty_cache["spark"] / name, place / name)
    settings = tmp_path / "ivysettings.xml"
    pattern = f"{repository}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        f'<filesystem name="own" m2compatible="true"><artifact pattern="{pattern}"/></filesystem>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("EAGRE_IVY_SETTINGS", str(settings))
    jars.fetch("spark", str)
    jars.verify("spark")


def test_an_unreachable_repository_is_reported_in_one_line(empty_cache, tmp_path, monkeypatch):
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers><filesystem name="own">'
        f'<artifact pattern="{tmp_path}/nowhere/[artifact].[ext]"/></filesystem>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("EAGRE_IVY_SETTINGS", str(settings))
    with pytest.raises(JvmError, match="JARS_NOT_FETCHED"):
        jars.fetch("spark", str)


def test_the_companion_belongs_to_this_release():
    with zipfile.ZipFile(companion.companion_jar()) as jar:
        assert jar.read(companion.VERSION_ENTRY).decode() == __version__


def test_a_companion_of_another_release_is_refused(tmp_path, monkeypatch):
    jar = tmp_path / "old.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr(companion.VERSION_ENTRY, "0.0.1")
    monkeypatch.setenv("EAGRE_COMPANION_JAR", str(jar))
    with pytest.raises(
        JvmError, match=rf"COMPANION_VERSION: .* belongs to Eagre 0\.0\.1, .* {__version__}"
    ):
        companion.companion_jar()


def test_a_missing_companion_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("EAGRE_COMPANION_JAR", str(tmp_path / "none.jar"))
    with pytest.raises(JvmError, match="COMPANION_MISSING"):
        companion.companion_jar()


def test_the_jars_command(cli):
    assert "46 jars match the lock" in cli.ok("jars", "verify").stdout
    assert "spark-sql-kafka" in cli.ok("jars", "path").stdout
    assert "kafka_2.13" in cli.ok("jars", "path", "broker").stdout
    assert cli("jars", "fetch", "nonsense").returncode == 2
