"""The time of a partition: patterns, Java's formats, zones, days that gain or lose an hour, and
Iceberg's own transforms.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import InvalidInput
from frazil.stream.partitions.extractor import (
    TimeExtractor,
    UnparsablePartition,
    java_parser,
    parse_default,
)
from frazil.stream.partitions.fields import FieldOfPartition, Partition
from frazil.stream.partitions.options import partition_commit_options
from frazil.stream.partitions.zones import zone_of

BASE = {
    "sink.partition-commit.policy.kind": "tag",
    "sink.partition-commit.trigger": "partition-time",
}
ZONE, PATTERN = (
    "sink.partition-commit.watermark-time-zone",
    "partition.time-extractor.timestamp-pattern",
)
FORMAT, CLASS = "partition.time-extractor.timestamp-formatter", "partition.time-extractor.class"


def extracted(values, names=None, options=None, transforms=None, zoned=False):
    """The time of a partition in UTC, as text."""
    names = names or ["dt", "hr"][: len(values)]
    fields = tuple(FieldOfPartition(n, (transforms or {}).get(n, "identity"), zoned) for n in names)
    extractor = TimeExtractor(partition_commit_options({**BASE, **(options or {})}))
    extractor.check(fields)
    ms = extractor.time_ms(Partition(0, tuple(values)), fields)
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ")[:-6]


@pytest.mark.parametrize(
    ("values", "options", "expected"),
    [
        (["2026-01-02"], {}, "2026-01-02 00:00:00"),
        (["2026-1-2"], {}, "2026-01-02 00:00:00"),
        (["2026-01-02 5:6:7"], {}, "2026-01-02 05:06:07"),
        (["2026-01-02T05:06"], {}, "2026-01-02 05:06:00"),
        (["2026-01-02T05:06:07+02:00"], {}, "2026-01-02 03:06:07"),
        (["2026-01-02 05:06:07.5"], {}, "2026-01-02 05:06:07.500000"),
        (["2026-01-02", "5"], {}, "2026-01-02 00:00:00"),
        (["2026-01-02", "5"], {PATTERN: "$dt $hr:00:00"}, "2026-01-02 05:00:00"),
        (["2026-01-02", "05"], {PATTERN: "${dt} ${hr}:00:00"}, "2026-01-02 05:00:00"),
        (["20260102", "05"], {PATTERN: "$dt$hr", FORMAT: "yyyyMMddHH"}, "2026-01-02 05:00:00"),
        (["20260102"], {FORMAT: "yyyyMMdd"}, "2026-01-02 00:00:00"),
        (["02.01.26"], {FORMAT: "dd.MM.yy"}, "2026-01-02 00:00:00"),
        (["2026-002"], {FORMAT: "yyyy-DDD"}, "2026-01-02 00:00:00"),
        (["Jan 2, 2026 5 pm"], {FORMAT: "MMM d, yyyy h a"}, "2026-01-02 17:00:00"),
        (["2026-01-02T24"], {FORMAT: "yyyy-MM-dd'T'kk"}, "2026-01-02 00:00:00"),
        (["2026-01-02"], {FORMAT: "yyyy-MM-dd[ HH:mm]"}, "2026-01-02 00:00:00"),
        (["2026-01-02 07:08"], {FORMAT: "yyyy-MM-dd[ HH:mm]"}, "2026-01-02 07:08:00"),
        (["2026-01-02"], {ZONE: "Asia/Shanghai"}, "2026-01-01 16:00:00"),
        (["2026-01-02"], {ZONE: "GMT+8"}, "2026-01-01 16:00:00"),
        (["2026-01-02"], {ZONE: "-03:30"}, "2026-01-02 03:30:00"),
        (["2026-01-02"], {CLASS: "tests.stream.partitions.custom:next_day"}, "2026-01-03 00:00:00"),
        (
            ["2026-01-02"],
            {CLASS: "tests.stream.partitions.custom:Noon", ZONE: "+01:00"},
            "2026-01-02 11:00:00",
        ),
    ],
)
def test_the_time_of_a_partition_is_extracted(values, options, expected):
    assert extracted(values, options=options) == expected


@pytest.mark.parametrize(
    ("day_and_hour", "zone", "expected"),
    [
        (
            "2026-03-29 01:00:00",
            "Europe/Berlin",
            "2026-03-29 00:00:00",
        ),  # the last hour before the gap
        (
            "2026-03-29 02:30:00",
            "Europe/Berlin",
            "2026-03-29 01:30:00",
        ),  # within the gap: moved on by it, as java.time does
        ("2026-03-29 03:00:00", "Europe/Berlin", "2026-03-29 01:00:00"),
        (
            "2026-10-25 02:30:00",
            "Europe/Berlin",
            "2026-10-25 00:30:00",
        ),  # comes twice: the first is meant
        ("2026-10-25 03:00:00", "Europe/Berlin", "2026-10-25 02:00:00"),
        ("2026-10-25", "Europe/Berlin", "2026-10-24 22:00:00"),
        ("2026-10-26", "Europe/Berlin", "2026-10-25 23:00:00"),  # that day had 25 hours
        ("2018-11-04", "America/Sao_Paulo", "2018-11-04 03:00:00"),  # a day without a midnight
    ],
)
def test_days_that_gain_or_lose_an_hour_are_those_of_the_zone(day_and_hour, zone, expected):
    assert extracted([day_and_hour], options={ZONE: zone}) == expected


@pytest.mark.parametrize(
    ("transforms", "values", "zoned", "expected"),
    [
        ({"ts_hour": "hour"}, ["2026-01-02-05"], False, "2026-01-02 04:00:00"),
        ({"ts_hour": "hour"}, ["2026-01-02-05"], True, "2026-01-02 05:00:00"),
        ({"ts_day": "day"}, ["2026-01-02"], True, "2026-01-02 00:00:00"),
        ({"ts_month": "month"}, ["2026-02"], True, "2026-02-01 00:00:00"),
        ({"ts_year": "year"}, ["2026"], True, "2026-01-01 00:00:00"),
        (
            {"region": "identity", "ts_day": "day"},
            ["eu", "2026-01-02"],
            True,
            "2026-01-02 00:00:00",
        ),
        (
            {"ts_day": "day", "ts_hour": "hour"},
            ["2026-01-02", "2026-01-02-07"],
            True,
            "2026-01-02 07:00:00",
        ),
    ],
)
def test_transforms_of_time_tell_the_time_by_themselves_in_utc_where_the_column_has_a_zone(
    transforms, values, zoned, expected
):
    assert extracted(values, list(transforms), {ZONE: "+01:00"}, transforms, zoned) == expected


def test_a_pattern_goes_before_a_transform():
    assert (
        extracted(["x", "2026-01-02"], ["ts_day", "dt"], {PATTERN: "$dt"}, {"ts_day": "day"})
        == "2026-01-02 00:00:00"
    )


def test_names_are_matched_whole_so_that_h_does_not_spoil_hour():
    values, names = ["2026-01-02", "9", "05"], ["dt", "h", "hour"]
    assert extracted(values, names, {PATTERN: "$dt $hour:0$h:00"}) == "2026-01-02 05:09:00"


@pytest.mark.parametrize(
    ("values", "options", "transforms"),
    [
        (["yesterday"], {}, {}),
        ([None], {}, {}),
        (["2026-02-30"], {}, {}),
        (["2026-01-02 24:00:00"], {}, {}),
        (["99999-01-01"], {}, {}),
        (["2026-01-02", "x"], {PATTERN: "$dt $hr:00:00"}, {}),
        (["2026-01-02"], {FORMAT: "yyyyMMdd"}, {}),
        ([None], {}, {"dt": "day"}),
        (["2026-01-02"], {CLASS: "tests.stream.partitions.custom:nothing"}, {}),
    ],
)
def test_what_is_no_time_is_an_error_that_names_partition_and_pattern(values, options, transforms):
    with pytest.raises(UnparsablePartition, match="dt=") as caught:
        extracted(values, options=options, transforms=transforms)
    assert "on-unparsable" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({PATTERN: "$dth"}, r"\$dth .* is not a partition field"),
        ({PATTERN: "${nothing}"}, "is not a partition field"),
        ({FORMAT: "yyyy-MM"}, "does not give a date"),
        ({FORMAT: "yyyy-MM-dd h"}, "need each other"),
        ({FORMAT: "yyyy-MM-ddTHH"}, "T in the pattern .* not supported"),
        ({FORMAT: "yyyy-MM-dd XX"}, "XX in the pattern .* not supported"),
        ({FORMAT: "yyyy-MM-dd dd"}, "names the day twice"),
        ({FORMAT: "yyyy-MM-dd[ HH"}, "brackets"),
        ({FORMAT: "yyyy-MM-dd'T"}, "quote"),
        ({FORMAT: "yyyy-MM-dd#"}, "must be quoted"),
        ({CLASS: "nowhere"}, "no colon"),
        ({CLASS: "tests.stream.partitions.custom:gone"}, "cannot import"),
    ],
)
def test_patterns_that_can_never_work_are_refused_before_the_first_batch(options, said):
    with pytest.raises(InvalidInput, match=said):
        extracted(["2026-01-02"], options=options)


def times(first_year: int, last_year: int) -> st.SearchStrategy[datetime]:
    between = st.datetimes(
        min_value=datetime(first_year, 1, 1), max_value=datetime(last_year, 12, 31)
    )
    return between.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))


TIMES = times(1000, 9999)


@given(TIMES)
def test_every_time_that_is_written_in_the_default_format_is_read_back(time):
    assert parse_default(time.isoformat(" ")) == time
    assert parse_default(
        f"{time.year}-{time.month}-{time.day} {time.hour}:{time.minute}:{time.second}"
    ) == time.replace(microsecond=0)


@given(TIMES)
def test_every_time_that_is_written_by_a_java_pattern_is_read_back(time):
    hour = time.strftime("%I")
    for pattern, text in (
        ("yyyyMMddHHmmssSSS", time.strftime("%Y%m%d%H%M%S") + f"{time.microsecond // 1000:03d}"),
        (
            "d/M/y H:m:s.SSS",
            f"{time.day}/{time.month}/{time.year} {time.hour}:{time.minute}:{time.second}.{time.microsecond // 1000:03d}",
        ),
        (
            "MMMM dd uuuu hh:mm:ss.SSS a",
            time.strftime(f"%B %d %Y {hour}:%M:%S.")
            + f"{time.microsecond // 1000:03d} "
            + time.strftime("%p"),
        ),
        (
            "yyyy-DDD HH:mm:ss.SSS",
            time.strftime("%Y-%j %H:%M:%S.") + f"{time.microsecond // 1000:03d}",
        ),
    ):
        if len(str(time.year)) == 4 and not text.startswith("0"):
            assert java_parser(pattern, "o")(text) == time


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_a_value_error(text):
    for parse in (
        parse_default,
        java_parser("yyyy-MM-dd[ HH[:mm]]", "o"),
        java_parser("yyyyMMdd", "o"),
    ):
        with contextlib.suppress(ValueError):
            assert isinstance(parse(text), datetime)


@given(
    times(1972, 2036),
    st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Chatham", "+05:45"]
    ),
)
def test_later_times_are_never_earlier_instants_but_in_the_hour_that_comes_twice(time, zone):
    options = {ZONE: zone}
    first, later = (
        extracted([time.isoformat(" ")], options=options),
        extracted([(time + timedelta(hours=3)).isoformat(" ")], options=options),
    )
    assert first < later
    back = datetime.fromisoformat(first).replace(tzinfo=UTC).astimezone(zone_of(zone))
    assert abs(back.replace(tzinfo=None) - time) <= timedelta(hours=1)
    if zone in ("Asia/Kolkata", "+05:45"):
        assert back.replace(tzinfo=None) == time


def test_zones_have_java_names_of_offsets_too():
    assert (
        zone_of("UTC+8").utcoffset(None) == zone_of("+08:00").utcoffset(None) == timedelta(hours=8)
    )
    assert (
        zone_of("Z") is UTC
        and zone_of("Europe/Berlin") == ZoneInfo("Europe/Berlin")
        and zone_of("Nowhere") is None
    )
    assert zone_of("../etc/passwd") is None
