"""Taking many scrapes apart at once gives what one line after the other would, and does each thing once."""

import itertools
import math
import re
from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest import exposition, exposition_repeats, exposition_scan, series_rows
from specledger.ingest.exposition_line import LineError, Series, parse_sample
from specledger.ingest.exposition_repeats import Scanner
from specledger.ingest.exposition_scan import Scrape, Vocabulary, scan
from specledger.ingest.metric_names import meaning
from tests.ingest.exposition_writer import draw, write
from tests.ingest.recording import read_many
from tests.ingest.test_exposition_random import scrapes
from tests.scale import scaled


def one_by_one(text: bytes) -> tuple[list[tuple[Series, float]], list[bytes]]:
    """The vLLM samples of a text and the lines that are none, by the grammar of one line alone."""
    samples, bad = [], []
    for line in text.split(b"\n")[:-1]:
        whole = line.rstrip(b"\r")
        if whole.startswith(b"#") or not whole.strip():
            continue
        try:
            sample = parse_sample(whole)
        except LineError:
            bad.append(whole)
            continue
        if meaning(sample.series.name) is not None:
            samples.append((sample.series, sample.value))
    return samples, bad


def at_once(texts: list[bytes]) -> list[tuple[list[tuple[Series, float]], list[bytes]]]:
    vocabulary = Vocabulary()
    readings = scan([Scrape(0, 0, text, 0, len(text)) for text in texts], vocabulary)
    return [
        (
            [(vocabulary.series[code], value) for code, value in zip(one.codes, one.values.tolist(), strict=True)],
            [line for _, _, line in one.bad_lines],
        )
        for one in readings
    ]


def comparable(found: Any) -> Any:
    """NaN equals NaN here, and values of other programs may be anything: they are not looked at."""
    return [
        ([(series, repr(value)) for series, value in samples], [line for line in bad if re.search(rb"vllm[:_]", line)])
        for samples, bad in found
    ]


@pytest.mark.parametrize("capture", ["dp2_one_api_server", "default_flags", "preemption"])
def test_real_scrapes_are_taken_apart_alike(capture: str) -> None:
    texts = [text.encode() for text in scrapes(capture)[::8]]
    assert comparable(at_once(texts)) == comparable(map(one_by_one, texts))


@settings(max_examples=scaled(60), deadline=None)
@given(st.integers(0, 2**64))
def test_damaged_scrapes_are_taken_apart_alike(seed: int) -> None:
    random = Random(seed)
    texts = []
    for _ in range(random.randint(1, 4)):
        text = bytearray(write(draw(random), random, openmetrics=random.random() < 0.5).encode())
        for _ in range(random.randint(0, 30)):
            place = random.randrange(len(text))
            text[place] = random.choice(b'\n\r\t {}",=#\\0e\xff\x00') if random.random() < 0.7 else text[place] ^ 1
        texts.append(bytes(text) + b"\n")
    assert comparable(at_once(texts)) == comparable(map(one_by_one, texts))


@settings(max_examples=scaled(15), deadline=None)
@given(st.integers(0, 2**64))
def test_scrapes_that_repeat_another_are_read_as_if_each_were_taken_apart(seed: int) -> None:
    random = Random(seed)
    models = [_model(random) for _ in range(random.randint(1, 3))]
    scanner, vocabulary = Scanner(Vocabulary()), Vocabulary()
    for _ in range(2):
        texts = [_changed(random.choice(models), random) for _ in range(random.randint(1, 12))]
        some = [Scrape(0, 10 * place, text, 0, len(text)) for place, text in enumerate(texts)]
        for fast, slow in zip(scanner.scan(some), scan(some, vocabulary), strict=True):
            for name in ("scrape", "comments", "foreign", "ends_with_vllm", "timestamp", "bad_lines"):
                assert getattr(fast, name) == getattr(slow, name)
            assert repr(fast.values.tolist()) == repr(slow.values.tolist())
            named = [scanner.vocabulary.series[code] for code in fast.codes]
            assert named == [vocabulary.series[code] for code in slow.codes]


ENDS = (b" NaN", b" +Inf", b" 1 1789372800000", b" 1 ", b' 1 # {a="b"} 2', b" x", b"1", b"", b"\r")


def _model(random: Random) -> bytes:
    head = random.choice([b"", b"# scraped_from http://a:8000/metrics\n"])
    return head + write(draw(random), random, openmetrics=random.random() < 0.3).encode().rstrip(b"\n") + b"\n"


def _changed(text: bytes, random: Random) -> bytes:
    """Other values; now and then another address, or a line that is other in more than its value."""
    text = re.sub(rb" [0-9.]+\n", lambda found: random.choice([found[0], b" %d\n" % random.randint(0, 9**9)]), text)
    if random.random() < 0.5:
        text = text.replace(b"http://a:8000", b"http://other:%d" % random.randint(1, 9_999))
    lines = text.split(b"\n")
    for _ in range(random.choice([0, 0, 1, 2])):
        at = random.randrange(len(lines) - 1)
        end = random.choice(ENDS)
        lines[at] = random.choice([lines[at] + end, lines[at].rpartition(b" ")[0] + end, lines[at][:-1], b"", b"a 1"])
    return b"\n".join(lines)


def test_a_scrape_that_repeats_another_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    text = scrapes("default_flags")[-1].encode()
    scanner, taken = Scanner(Vocabulary()), []
    monkeypatch.setattr(exposition_repeats, "scan", lambda some, words: taken.extend(some) or scan(some, words))
    for number in range(8):
        own = text.replace(b" 0.0\n", b" %d\n" % number)
        scanner.scan([Scrape(0, 0, own, 0, len(own))] * 3)
    assert len(taken) == 1


def test_values_that_no_array_operation_understands_are_read_one_by_one() -> None:
    text = b"vllm:a 1\nvllm:b NaN \nvllm:c 0x10\nvllm:d +Inf\nvllm:e 1_0\nvllm:f 2\r\n"
    ((samples, bad),) = at_once([text])
    assert [series.name for series, _ in samples] == ["vllm:a", "vllm:b", "vllm:d", "vllm:f"]
    assert [value for _, value in samples if not math.isnan(value)] == [1.0, math.inf, 2.0]
    assert bad == [b"vllm:c 0x10", b"vllm:e 1_0"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the slow parts ran."""
    counts: Counter[str] = Counter()

    def counting(module: Any, name: str) -> None:
        inner = getattr(module, name)

        def count(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            return inner(*arguments, **named)

        monkeypatch.setattr(module, name, count)

    counting(exposition_scan, "parse_series")
    counting(exposition_scan, "parse_sample")
    counting(series_rows, "plan")
    counting(series_rows, "emit")
    return counts


def test_a_night_of_scrapes_parses_each_series_once(counted: Counter[str]) -> None:
    text = scrapes("default_flags")[-1]
    night = "".join(f"# scraped_at {1_789_372_800 + 5 * number}\n{text}" for number in range(60))
    sink, _ = read_many(exposition.read_many, night)
    assert len(sink.snapshots) == 60
    lines = {line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    assert counted == {"parse_series": len(lines), "plan": 1, "emit": 1}


def test_a_label_that_changes_at_every_scrape_makes_no_new_layout(counted: Counter[str]) -> None:
    parts = (
        f"# scraped_at {number}\n"
        'vllm:num_requests_running{engine="0"} 1\n'
        f'vllm:lora_requests_info{{engine="0",running_lora_adapters="{number}"}} 1\n'
        for number in itertools.islice(itertools.count(1), 50)
    )
    sink, _ = read_many(exposition.read_many, "".join(parts))
    assert (len(sink.snapshots), len(sink.others)) == (50, 50)
    assert counted["plan"] == counted["emit"] == 1


def test_what_is_remembered_of_endless_labels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition_scan, "MAX_SERIES", 20)
    monkeypatch.setattr(exposition, "SCAN_BYTES", 500)
    monkeypatch.setattr(series_rows, "MAX_LAYOUTS", 3)
    monkeypatch.setattr(series_rows, "BATCH_VALUES", 10)
    parts = (
        f'# scraped_at {number}\nvllm:num_requests_running{{engine="{number}"}} {number}\nvllm:new{{a="{number}"}} 1\n'
        for number in range(1, 101)
    )
    sink, _ = read_many(exposition.read_many, "".join(parts))
    assert [(row["engine"], row["running"]) for row in sink.snapshots] == [(n, float(n)) for n in range(1, 101)]
    assert sorted(int(row["labels"]["a"]) for row in sink.others) == list(range(1, 101))
    assert sink.rejects == []
