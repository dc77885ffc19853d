"""hook/sitecustomize.py: that a program does not notice it. Needs no torch: a package of that
name takes its place."""

import pytest
from conftest import HOOK


@pytest.fixture
def fake_torch(tmp_path):
    """A folder with a package torch that no operator can be reported of."""
    package = tmp_path / "packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("ready = True\n")
    return package.parent


@pytest.fixture
def site(tmp_path):
    """Writes a sitecustomize.py of the user's, and returns its folder."""

    def write(text):
        folder = tmp_path / "site"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(text)
        return folder

    return write


DESCRIBE = """
    import sys
    print(sys.path[1:])
    print(sorted(name for name in sys.modules if "spillway" in name or "importlib" in name))
    print(len(sys.meta_path))
"""


def test_without_the_variable_nothing_changes(run_python):
    plain = run_python(DESCRIBE, hooked=False)
    hooked = run_python(DESCRIBE, SPILLWAY_OPERATORS="")
    assert hooked.stdout == plain.stdout
    assert hooked.stderr == ""


def test_a_program_without_torch_gets_its_path_and_no_modules(run_python):
    plain = run_python(DESCRIBE, hooked=False).stdout.splitlines()
    hooked = run_python(DESCRIBE).stdout.splitlines()
    assert hooked[:2] == plain[:2]
    assert int(hooked[2]) == int(plain[2]) + 1  # the watch for torch


def test_children_are_hooked_too(run_python):
    result = run_python("""
        import os, subprocess, sys
        print(os.environ["PYTHONPATH"], flush=True)
        subprocess.run([sys.executable, "-c", "import sys; print(type(sys.meta_path[0]).__name__)"],
                       check=True)
    """)
    assert result.stdout.split() == [str(HOOK), "_ImportWatch"]


def test_the_other_sitecustomize_runs_and_takes_the_name(run_python, site):
    folder = site("print('other'); answer = 42\n")
    result = run_python("import sitecustomize; print(sitecustomize.answer)", path=[folder])
    assert result.stdout.split() == ["other", "42"]


def test_without_another_sitecustomize_ours_keeps_the_name(run_python):
    result = run_python("""
        import sys
        module = sys.modules.get("sitecustomize")
        print(module is not None)
    """)
    assert result.stdout.split() == ["True"]


@pytest.mark.parametrize("text", ["raise ValueError('from site')", "import no_such_module"])
def test_errors_of_the_other_sitecustomize_are_reported_as_without_ours(run_python, site, text):
    folder = site(text)
    plain = run_python("print('ran')", hooked=False, path=[folder])
    hooked = run_python("print('ran')", path=[folder])
    assert hooked.stdout == plain.stdout == "ran\n"
    assert hooked.stderr == plain.stderr
    assert hooked.stderr != ""


def test_torch_that_cannot_report_works_silently(run_python, fake_torch):
    result = run_python("import torch; print(torch.ready)", path=[fake_torch])
    assert (result.stdout, result.stderr) == ("True\n", "")


def test_verbose_says_why_in_one_line(run_python, fake_torch):
    result = run_python("import torch; print(torch.ready)", path=[fake_torch], SPILLWAY_VERBOSE=1)
    assert result.stdout == "True\n"
    (line,) = result.stderr.splitlines()
    assert line.startswith("spillway: operators are not reported: ModuleNotFoundError: ")


def test_looking_for_torch_is_not_importing_it(run_python, fake_torch):
    result = run_python("""
        import importlib.util, sys
        spec = importlib.util.find_spec("torch")
        print(type(spec.loader).__name__, "torch" in sys.modules, type(sys.meta_path[0]).__name__)
        import torch
        print("_ImportWatch" in [type(finder).__name__ for finder in sys.meta_path])
    """, path=[fake_torch], SPILLWAY_VERBOSE=1)
    assert result.stdout.split() == ["SourceFileLoader", "False", "_ImportWatch", "False"]
    assert len(result.stderr.splitlines()) == 1


def test_an_import_that_fails_is_watched_again(run_python, fake_torch):
    (fake_torch / "torch" / "__init__.py").write_text(
        "import os\nif 'BROKEN' in os.environ: raise ImportError('broken')\n")
    result = run_python("""
        import os
        try:
            import torch
        except ImportError as error:
            print(error)
        del os.environ["BROKEN"]
        import torch
    """, path=[fake_torch], BROKEN=1, SPILLWAY_VERBOSE=1)
    assert result.stdout == "broken\n"
    assert len(result.stderr.splitlines()) == 1  # from the second import, the only one to succeed


def test_no_torch_is_the_usual_error(run_python):
    result = run_python("""
        import importlib.abc, sys

        class Nothing(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(1, Nothing())
        try:
            import torch
        except ModuleNotFoundError as error:
            print(error)
    """)
    assert result.stdout == "No module named 'torch'\n"


def test_a_module_named_spillway_is_the_scripts_own(run_python, fake_torch):
    (fake_torch / "spillway.py").write_text("owner = 'script'\n")
    result = run_python("import torch, spillway; print(spillway.owner)", path=[fake_torch])
    assert result.stdout == "script\n"
