"""`manage.py plan` on given numbers: figures, the chart, the worked example of the documentation, and one sentence for each wrong flag."""

import json
import re
import shlex
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from stack.programs import ROOT
from workers.planning.flags import NUMBERS, flag

EVALUATED = ("--rate", "8", "--service-seconds", "0.2", "--slots", "2", "--max-waiting", "20")


def _plan(*arguments: str) -> str:
    output = StringIO()
    call_command("plan", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue()


def _json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(_plan(*arguments, "--format", "json")))


def test_a_size_is_judged_without_a_database() -> None:
    found = _json(*EVALUATED)
    assert found["p95_wait_seconds"] == pytest.approx(1.25546360, abs=1e-6)
    assert (found["slots"], found["max_waiting"], found["cost_class"]) == (2, 20, None)


def test_what_memory_blocks_cannot_be_met() -> None:
    sizing = ("--rate", "20", "--service-seconds", "0.2", "--wait-target", "1", "--refusal-target", "0.001")
    assert _json(*sizing)["max_waiting"] == 21
    blocked = _json(*sizing, "--memory-mib", "400", "--machine-memory-mib", "2048")
    assert (blocked["meets"], blocked["slots"], blocked["memory"]["processes"]) == (False, 3, 3)
    assert "Cannot meet what was asked for" in _plan(*sizing, "--memory-mib", "400", "--machine-memory-mib", "2048")


def test_run_times_come_from_a_file_and_the_line_is_played_with_them(tmp_path: Path) -> None:
    (tmp_path / "times").write_text("0.1\n0.3\n\n")
    found = _json("--rate", "8", "--run-times", str(tmp_path / "times"), "--slots", "2", "--max-waiting", "20")
    assert found["asked"]["service_seconds"] == pytest.approx(0.2)
    assert found["played"]["p95_wait_seconds"] < found["p95_wait_seconds"]  # they vary less than the formula takes it
    with pytest.raises(CommandError, match="both say how long jobs run; give one of them"):
        _plan("--rate", "8", "--run-times", str(tmp_path / "times"), "--service-seconds", "1")


def test_the_chart_is_a_png(tmp_path: Path) -> None:
    _plan(*EVALUATED, "--chart", str(tmp_path / "plan.png"))
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(CommandError, match=r"--chart .*nowhere/plan.png cannot be written: No such file or directory"):
        _plan(*EVALUATED, "--chart", str(tmp_path / "nowhere/plan.png"))


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--rate 0 --service-seconds 1", "--rate is '0', but must be a number of jobs a second above 0"),
        ("--rate -3 --service-seconds 1", "--rate is '-3', but must be"),
        ("--rate nan --service-seconds 1", "--rate is 'nan', but must be"),
        ("--rate inf --service-seconds 1", "--rate is 'inf', but must be"),
        ("--rate x --service-seconds 1", "--rate is 'x', but must be"),
        ("--rate 1 --service-seconds 0", "--service-seconds is '0', but must be a number of seconds above 0"),
        ("--rate 1 --service-seconds 1 --slots 0", "--slots is '0', but must be a whole number from 1 to 256."),
        ("--rate 1 --service-seconds 1 --slots 2.5", "--slots is '2.5', but must be a whole number"),
        ("--rate 1 --service-seconds 1 --slots 1 --max-waiting 10001", "--max-waiting is '10001', but must be"),
        ("--rate 1 --service-seconds 1 --refusal-target 1", "--refusal-target is '1', but must be a share"),
        ("--rate 1 --service-seconds 1 --wait-target -1", "--wait-target is '-1', but must be"),
        ("--rate 1 --service-seconds 1 --memory-mib nan", "--memory-mib is 'nan', but must be"),
        ("--rate 1", "--rate needs --service-seconds or --run-times too"),
        ("--service-seconds 1", "--service-seconds and --run-times need --rate too"),
        ("--rate 1 --service-seconds 1", "Say --wait-target, from which a size can be found"),
        ("--rate 1 --service-seconds 1 --slots 2", "Say --max-waiting, or --wait-target"),
        ("--slots 3", "--slots, --max-waiting and --memory-mib are of one class: say --cost-class"),
        ("--cost-class hevy", "--cost-class is 'hevy', but must be one of light, heavy"),
        ("--rate 1 --service-seconds 1 --run-times README.md", "README.md, line 1, is '# Weighbridge', but must be"),
        ("--rate 1 --run-times nowhere", "nowhere cannot be read: No such file or directory."),
        ("--params x.json", "Only --measure takes --params."),
        ("--measure probe.sleep --rate 1 --slots 2", "--measure takes no --rate, --slots."),
    ],
)
def test_a_wrong_flag_is_one_sentence_that_names_it(flags: str, sentence: str) -> None:
    with pytest.raises(CommandError) as refused:
        _plan(*shlex.split(flags))
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value).splitlines()) == 1


DOCS = (ROOT / "docs/planning.md").read_text()
EXAMPLES = re.findall(r"```sh\nmanage\.py plan (.*?)\n```\n\n```text\n(.*?)\n```", DOCS, re.DOTALL)


@pytest.mark.parametrize(("flags", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_documentation_are_what_is_said(flags: str, shown: str) -> None:
    assert _plan(*shlex.split(flags)).rstrip() == shown


def test_the_documentation_has_its_examples_and_names_every_flag() -> None:
    assert len(EXAMPLES) == 3
    assert {f for f in map(flag, NUMBERS) if f"`{f}" not in DOCS} == set()
