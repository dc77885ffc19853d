"""examples/train_gpt2.py: that its runs repeat, and that it says what is wrong with an option."""

import pytest
from conftest import GPT2, PROJECT

SCRIPT = PROJECT / "examples" / "train_gpt2.py"
TINY = ["--preset", "tiny", "--steps", "3"]


@pytest.fixture
def train(run_python):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    return lambda *options, warm=GPT2: run_python(SCRIPT, *TINY, *options, hooked=False, warm=warm)


@pytest.fixture
def refused(run_python):
    """What the script says to options that it does not take. Needs no torch."""

    def run(*options):
        result = run_python(SCRIPT, *options, hooked=False, status=2)
        assert result.stdout == ""
        return result.stderr.splitlines()[-1]

    return run


def test_two_runs_write_the_same_exact_losses(train, tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    printed = [train("--losses", file).stdout for file in files]
    losses = files[0].read_text().splitlines()
    assert losses == files[1].read_text().splitlines()
    assert len(losses) == 3
    for text, line in zip(losses, printed[0].splitlines()[1:]):
        assert float.fromhex(text).hex() == text
        assert f"loss {float.fromhex(text):.4f}" in line
    assert "peak resident memory" in printed[0].splitlines()[-1]


def test_another_seed_is_another_run(train, tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    for seed, file in enumerate(files):
        train("--seed", seed, "--losses", file)
    assert files[0].read_text() != files[1].read_text()


def test_it_learns_the_text_that_it_is_given(train, tmp_path):
    text, losses = tmp_path / "text", tmp_path / "losses"
    text.write_bytes(b"ab" * 500)
    result = train("--text", text, "--steps", 30, "--losses", losses)
    assert "1000 bytes of text" in result.stdout
    first, *_, last = map(float.fromhex, losses.read_text().split())
    assert last < first - 1


def test_quiet_prints_nothing(train):
    result = train("--quiet", warm=None)
    assert (result.stdout, result.stderr) == ("", "")


def test_help_does_not_wait_for_torch(run_python, tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')")
    result = run_python(SCRIPT, "--help", hooked=False, path=[tmp_path])
    assert "examples:" in result.stdout


@pytest.mark.parametrize("options, said", [
    (["--heads", "3"], "--heads 3 does not divide --width 512"),
    (["--steps", "0"], "--steps: 0 is not at least 1"),
    (["--layers", "many"], "--layers: invalid"),
    (["--preset", "huge"], "--preset: invalid choice: 'huge'"),
    (["--text", "/no/such/file"], "--text: No such file or directory: /no/such/file"),
    (["--text", "/dev/null"], "--text: 0 bytes are too few for --context 512"),
    (["--losses", "/no/such/folder/file"],
     "--losses: No such file or directory: /no/such/folder/file"),
])
def test_bad_options(refused, options, said):
    assert said in refused(*options)
