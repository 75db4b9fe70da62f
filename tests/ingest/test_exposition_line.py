import math

import pytest

from specledger.ingest.exposition_line import LineError, Sample, Series, parse_sample, parse_series


def series(name: str, **labels: str) -> Series:
    return Series(name, tuple(sorted(labels.items())))


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        (b"up 1", Sample(series("up"), 1.0)),
        (b"up{} 1", Sample(series("up"), 1.0)),
        (b'vllm:x_total{engine="0"} 2.5e+03', Sample(series("vllm:x_total", engine="0"), 2500.0)),
        (b'x{b="2",a="1"} -1', Sample(series("x", a="1", b="2"), -1.0)),
        (b'x{a="1",} 1', Sample(series("x", a="1"), 1.0)),
        (b'x { a = "1" , b = "2" } 1', Sample(series("x", a="1", b="2"), 1.0)),
        (b'x{a="1"}\t1\t', Sample(series("x", a="1"), 1.0)),
        (b'x{a="1"}1', Sample(series("x", a="1"), 1.0)),
        (b'x{a="} 5 {"} 6', Sample(series("x", a="} 5 {"), 6.0)),
        (b'x{a="q\\"b\\\\n\\nl"} 6', Sample(series("x", a='q"b\\n\nl'), 6.0)),
        (b'x{a="keep \\t"} 6', Sample(series("x", a="keep \\t"), 6.0)),
        (b"x +Inf", Sample(series("x"), math.inf)),
        (b"x -inf", Sample(series("x"), -math.inf)),
        (b"x 5 1789372801439", Sample(series("x"), 5.0, 1789372801.439)),
        (b"x 5 1789372801.5", Sample(series("x"), 5.0, 1789372801.5)),
        (b"x 5 1789372801", Sample(series("x"), 5.0, 1789372801.0)),
        (b'x_bucket{le="1"} 5 # {trace_id="a} 9"} 0.5 1.5', Sample(series("x_bucket", le="1"), 5.0)),
        (b'{"my.metric",a="1"} 3', Sample(series("my.metric", a="1"), 3.0)),
        (b'x{"my.label"="1"} 3', Sample(Series("x", (("my.label", "1"),)), 3.0)),
        ('x{a="é"} 3'.encode(), Sample(series("x", a="é"), 3.0)),
        (b'x{a="\xff"} 3', Sample(series("x", a="\ufffd"), 3.0)),
    ],
)  # fmt: skip
def test_a_sample_line_is_read(line: bytes, sample: Sample) -> None:
    assert parse_sample(line) == sample


def test_nan_is_a_value() -> None:
    assert math.isnan(parse_sample(b"x NaN").value)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "does not start with a metric name"),
        (b"5", "does not start with a metric name"),
        (b"<html> 5", "does not start with a metric name"),
        (b"x", "has no value"),
        (b'x{a="1"}', "has no value"),
        (b'x{a="1} 5', "labels do not follow"),
        (b'x{a="1"', "labels do not follow"),
        (b'x{a=1"} 5', "labels do not follow"),
        (b'x{a="1" b="2"} 5', "labels do not follow"),
        (b'x{a="1",a="2"} 5', "given twice"),
        (b"x{a} 5", "a label has no value"),
        (b"x five", "value is no number"),
        (b"x 1_0", "value is no number"),
        (b"x 0x10", "value is no number"),
        (b"x 5 yesterday", "timestamp is no number"),
        (b"x 5 6 7", "more than a value and a timestamp"),
        (b"x-y 5", "a character that names cannot have"),
        (b'x{a="1"} 12vllm:y{a="1"} 3', "value is no number"),
        (b"x{" + b",".join(b'l%d="1"' % n for n in range(300)) + b"} 5", "more than 256 labels"),
    ],
)
def test_a_line_that_is_no_sample_says_why(line: bytes, why: str) -> None:
    with pytest.raises(LineError, match=why):
        parse_sample(line)


def test_a_series_is_all_of_the_text() -> None:
    assert parse_series(b'x{a="1"}') == series("x", a="1")
    with pytest.raises(LineError, match="goes on"):
        parse_series(b'x{a="1"} 5')


@pytest.mark.parametrize(
    "line",
    [b"x " + b"1" * 1_000_000 + b"!", b"x{a" + b" " * 1_000_000, b'x{a="' + b'\\"' * 500_000],
    ids=["a number that is none", "a name without a value", "a quote without an end"],
)
def test_a_long_line_is_read_once(line: bytes) -> None:
    """Tried from each of its bytes again, one of these would take hours."""
    with pytest.raises(LineError):
        parse_sample(line)
