"""`manage.py simulate`: text and JSON, traces, the example of the documentation, and one sentence for each wrong flag."""

import json
import re
import shlex
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from stack.programs import ROOT
from workers.simulating.flags import NUMBERS, OF_A_CLASS, OF_A_LOAD

DOCS = (ROOT / "docs/simulating.md").read_text()
EXAMPLES = re.findall(r"```sh\nmanage\.py simulate (.*?)\n```\n\n```text\n(.*?)\n```", DOCS, re.DOTALL)


def _simulate(*arguments: str) -> str:
    output = StringIO()
    call_command("simulate", *arguments, stdout=output)
    return output.getvalue()


@pytest.mark.parametrize(("flags", "shown"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_documentation_are_what_is_said(flags: str, shown: str) -> None:
    said = _simulate(*shlex.split(flags.replace("\\\n", " ")))
    assert [line.rstrip() for line in said.rstrip().splitlines()] == shown.splitlines()


def test_the_documentation_has_its_examples_and_names_all_that_can_be_asked() -> None:
    assert len(EXAMPLES) == 3
    assert {name for name in (*OF_A_CLASS, *OF_A_LOAD) if f"`{name}`" not in DOCS} == set()
    assert {name for name in NUMBERS if f"`--{name.replace('_', '-')}" not in DOCS} == set()


def test_a_trace_is_played_on_the_classes_that_are_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("at_seconds,client,cost_class,run_seconds\n0,a,light,1\n0.5,b,heavy,2\n")
    found = json.loads(_simulate("--trace", str(tmp_path / "t.csv"), "--format", "json"))
    assert (found["jobs"], list(found["classes"]), list(found["clients"])) == (2, ["heavy", "light"], ["a", "b"])
    assert found["classes"]["light"]["useful_share"] == 1


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("", "Say what comes: --load, --trace or --recorded, one of them."),
        ("--load name=light,rate=1,run_seconds=1 --recorded", "Say what comes: "),
        ("--load rate=1", "--load is 'rate=1', but must be one that also has name=…"),
        ("--load name=light,rate=1", "--load is 'name=light,rate=1', but must be one that also has either run_seconds=…"),
        ("--load name=light,run_seconds=1", "--load is 'name=light,run_seconds=1', but must be one that also has either rate=…"),
        ("--load name=light,rate=1,threads=1,run_seconds=1", "--load is 'name=light,rate=1,threads=1,run_seconds=1', but"),
        (
            "--load name=light,rate=1,rest_seconds=1,run_seconds=1",
            "--load is 'name=light,rate=1,rest_seconds=1,run_seconds=1', but must be one that has threads=… where it has rest_seconds=…",
        ),
        ("--load name=light,threads=2,run_seconds=1", "Of the loads one at least needs a rate: threads go on for as long"),
        ("--load name=light,threads=0,run_seconds=1", "--load name=light,threads=0,run_seconds=1: threads is '0', but must"),
        ("--load name=light,rate=0,run_seconds=1", "--load name=light,rate=0,run_seconds=1: rate is '0', but must be"),
        ("--load name=light,rte=1", "--load name=light,rte=1: rte=1 is 'rte=1', but must be name=value, once each of name,"),
        ("--load name=huge,rate=1,run_seconds=1", "A job's cost_class is 'huge', but must be one of light, heavy"),
        ("--load name=light,rate=1,run_times=nowhere", "nowhere cannot be read: No such file or directory."),
        ("--class name=new,processes=2 --load name=new,rate=1,run_seconds=1", "--class is 'name=new,processes=2', but must"),
        ("--class name=light,nodes=1001 --load name=light,rate=1,run_seconds=1", "--class name=light,nodes=1001: nodes is"),
        ("--jobs 1000001 --load name=light,rate=1,run_seconds=1", "--jobs is '1000001', but must be a whole number from 1"),
        ("--retries maybe --load name=light,rate=1,run_seconds=1", "--retries is 'maybe', but must be one of obey, ignore"),
        ("--trace nowhere", "nowhere cannot be read: No such file or directory."),
    ],
)  # fmt: skip
def test_a_wrong_flag_is_one_sentence_that_names_it(flags: str, sentence: str) -> None:
    with pytest.raises(CommandError) as refused:
        _simulate(*shlex.split(flags))
    assert str(refused.value).startswith(sentence)
    assert len(str(refused.value).splitlines()) == 1
