"""Set-up makes or mends .venv, one at a time, and says in a sentence what it cannot do."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stack import environment

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Lock files and a .venv whose interpreter is ours."""
    (tmp_path / "requirements").mkdir()
    for name in ("base.txt", "embedded.txt", "dev.txt"):
        (tmp_path / "requirements" / name).write_text(f"# {name}\n")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    return tmp_path


def _fake_python(folder: Path, name: str, answers: str) -> None:
    """A stand-in interpreter: cannot do what is asked, and says `answers` when asked for its version."""
    file = folder / name
    file.write_text(f'#!/bin/sh\ncase "$2" in *print*) echo "{answers}";; *) exit 1;; esac\n')
    file.chmod(0o755)


def _set_up(tools: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Source bin/_setup where only the tools in the folder are found."""
    for tool in ("dirname", "bash"):
        link = tools / tool
        if not link.exists():
            link.symlink_to(Path("/usr/bin") / tool)
    return subprocess.run(
        ["/bin/bash", "-c", f'. "{CHECKOUT}/bin/_setup" run; echo reached'],
        env={"PATH": str(tools), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _is_one_sentence(ran: subprocess.CompletedProcess[str]) -> bool:
    return ran.returncode == 1 and "reached" not in ran.stdout and len(ran.stderr.strip().splitlines()) == 1


def test_only_a_too_old_python_gives_a_sentence_that_names_it(tmp_path: Path) -> None:
    _fake_python(tmp_path, "python3", "3.9 0")
    ran = _set_up(tmp_path)
    assert _is_one_sentence(ran), ran.stderr
    assert "needs Python 3.11 or newer, but found only 3.9 (python3)" in ran.stderr


def test_no_python_at_all_gives_a_sentence(tmp_path: Path) -> None:
    ran = _set_up(tmp_path)
    assert _is_one_sentence(ran), ran.stderr
    assert "found none" in ran.stderr


def test_a_python_without_venv_gives_a_sentence_that_names_the_package(tmp_path: Path) -> None:
    _fake_python(tmp_path, "python3", "3.12 1")
    ran = _set_up(tmp_path)
    assert _is_one_sentence(ran), ran.stderr
    assert "python3-venv" in ran.stderr


def test_a_python_that_was_asked_for_is_not_silently_replaced(tmp_path: Path) -> None:
    _fake_python(tmp_path, "mine", "3.8 0")
    (tmp_path / "python3").symlink_to(sys.executable)
    ran = _set_up(tmp_path, PYTHON=str(tmp_path / "mine"))
    assert _is_one_sentence(ran), ran.stderr
    assert "found only 3.8" in ran.stderr


def test_a_newer_python_under_another_name_is_found(tmp_path: Path) -> None:
    _fake_python(tmp_path, "python3", "3.9 0")
    (tmp_path / "python3.12").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "python3.12").chmod(0o755)
    ran = subprocess.run(
        ["/bin/bash", "-c", f'. "{CHECKOUT}/bin/_setup" run; echo "$base_python"'],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    # /usr/bin may hold a usable python3.11 too, but python3.12 is asked before it.
    assert ran.stdout.strip() == str(tmp_path / "python3.12"), ran.stderr


@pytest.mark.parametrize("kind", ["run", "dev"])
def test_only_the_right_stamp_makes_an_environment_complete(checkout: Path, kind: str) -> None:
    assert not environment.is_complete(kind, checkout)
    environment.write_stamp(kind, checkout)
    assert environment.is_complete(kind, checkout)


def test_what_dev_installs_is_enough_to_run_and_not_the_other_way_round(checkout: Path) -> None:
    environment.write_stamp("run", checkout)
    assert not environment.is_complete("dev", checkout)
    environment.write_stamp("dev", checkout)
    assert environment.is_complete("run", checkout)


def test_changed_lock_files_make_it_incomplete(checkout: Path) -> None:
    environment.write_stamp("run", checkout)
    (checkout / "requirements/embedded.txt").write_text("changed\n")
    assert not environment.is_complete("run", checkout)


def test_a_moved_checkout_is_incomplete(checkout: Path, tmp_path: Path) -> None:
    environment.write_stamp("run", checkout)
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    checkout.rename(moved)
    assert not environment.is_complete("run", moved)
    moved.rename(checkout)


def test_an_interpreter_that_is_gone_makes_it_incomplete(checkout: Path) -> None:
    environment.write_stamp("run", checkout)
    (checkout / ".venv/bin/python").unlink()
    assert not environment.is_complete("run", checkout)


def test_an_environment_without_stamp_is_half_made_and_rebuilt(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".venv/rest").touch()
    monkeypatch.setattr(environment, "create", lambda home: (home / "bin").mkdir(parents=True))
    monkeypatch.setattr(environment, "install", lambda kind, root: None)
    environment.build("run", checkout)
    assert not (checkout / ".venv/rest").exists()
    assert environment.read_stamp(checkout)["run"] == environment.wanted("run", checkout)


def test_an_intact_environment_is_brought_up_to_date_in_place(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.write_stamp("run", checkout)
    (checkout / ".venv/rest").touch()
    (checkout / "requirements/base.txt").write_text("changed\n")
    monkeypatch.setattr(environment, "install", lambda kind, root: None)
    environment.build("run", checkout)
    assert (checkout / ".venv/rest").exists()
    assert environment.is_complete("run", checkout)


def test_an_installation_cut_short_leaves_no_stamp(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.write_stamp("run", checkout)
    (checkout / "requirements/base.txt").write_text("changed\n")

    def cut_short(kind: str, root: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(environment, "install", cut_short)
    assert environment.main("run", checkout) == 130
    assert environment.read_stamp(checkout) == {}


def test_a_failing_pip_gives_one_sentence_with_its_last_word_and_the_log(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").write_text(
        '#!/bin/sh\n[ "$1" = -I ] && exit 0\necho working\necho "ERROR: no such thing"\necho "[notice] new pip"\nexit 1\n'
    )
    (checkout / ".venv/bin/python").chmod(0o755)
    (checkout / ".venv/weighbridge.json").write_text(json.dumps({"place": str(checkout)}))
    assert environment.main("run", checkout) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("pip could not install the requirements")
    assert str(checkout / ".venv/setup.log") in said
    assert said.endswith("ERROR: no such thing")


def test_a_second_set_up_waits_for_the_first(checkout: Path) -> None:
    """The first, played by us, holds the lock; the second says that it waits, and ends once the lock is free."""
    (checkout / "stack").mkdir()
    (checkout / "stack/environment.py").write_bytes((CHECKOUT / "stack/environment.py").read_bytes())
    folder = os.open(checkout, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    command = [sys.executable, "-I", str(checkout / "stack/environment.py"), "run"]
    second = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    environment.write_stamp("run", checkout)
    os.close(folder)
    assert second.wait(timeout=60) == 0
    assert second.stderr.read() == ""
    second.stderr.close()


def test_a_complete_environment_is_left_alone_without_a_word_or_a_lock(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.write_stamp("run", checkout)
    folder = os.open(checkout, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # a set-up that is under way elsewhere does not matter
    assert environment.main("run", checkout) == 0
    os.close(folder)
    assert capsys.readouterr() == ("", "")
