"""K09: one dtype contract, whatever rows happen to be selected."""

import pandas as pd
import pytest

from agentflex_nb.analysis.dtypes import to_frame
from agentflex_nb.core.errors import QueryError

STATES = {
    "empty": "where false",
    "without a gap": "where n = 1",
    "with a gap": "",
    "all missing": "where n = 2",
}
COLUMNS = {
    "v.text": "str",
    "v.data": "str",
    "v.whole": "Int64",
    "v.small": "Int64",
    "v.sum": "Int64",
    "v.float": "float64",
    "v.single": "float64",
    "v.exact": "float64",
    "v.flag": "boolean",
    "v.at_": "datetime64[us, UTC]",
    "v.day": "datetime64[us]",
    "v.id": "str",
}
VALUES = """
    select n, v.* from (values
        (1, {text: 'a', data: '{}'::json, whole: 9007199254740993::bigint, small: 1::utinyint, sum: 3::hugeint,
             float: 0.5::double, single: 0.5::float, exact: 1.25::decimal(10, 2), flag: true,
             at_: '2026-03-29 01:30:00+00'::timestamptz, day: '2026-01-01'::date, id: uuid()}),
        (2, null)
    ) as given(n, v)
"""


@pytest.mark.parametrize("state", STATES)
def test_the_dtype_of_a_column_never_depends_on_its_rows(empty, state):
    columns = ", ".join(column.removeprefix("v.") for column in COLUMNS)
    frame = to_frame(empty.query(f"select {columns} from ({VALUES}) {STATES[state]} order by n"))

    assert [str(dtype) for dtype in frame.dtypes] == list(COLUMNS.values())


def test_whole_numbers_keep_every_digit_beside_a_missing_one(empty):
    frame = to_frame(empty.query(f"select whole from ({VALUES}) order by n"))

    assert frame.whole.tolist() == [9007199254740993, pd.NA]


def test_a_sum_over_what_is_missing_is_missing(empty):
    frame = to_frame(empty.query(f"select n, sum(small) as total from ({VALUES}) group by n order by n"))

    assert frame.total.tolist() == [1, pd.NA]


def test_a_number_beyond_64_bits_is_refused_with_a_way_out(empty):
    with pytest.raises(QueryError, match="big holds a number of more than 64 bits: cast it, for example big::double"):
        to_frame(empty.query("select 10::hugeint ** 30 as x, 170141183460469231731687303715884105727::hugeint as big"))


def test_a_closed_set_has_all_its_members_in_order(empty):
    for rows in ("where false", "where word is null", ""):
        table = empty.query(f"select word from (values ('b'), (null), ('a')) as given(word) {rows}")
        frame = to_frame(table, {"word": ["a", "b", "c"]})

        assert frame.word.dtype == pd.CategoricalDtype(pd.Index(["a", "b", "c"], dtype="str"))
    assert frame.word.isna().tolist() == [False, True, False]


def test_a_column_of_nothing_is_text(empty):
    assert str(to_frame(empty.query("select null as nothing")).nothing.dtype) == "str"


def test_two_columns_of_one_name_both_arrive(empty):
    frame = to_frame(empty.query("select 1::hugeint as a, 2::hugeint as a"))

    assert frame.iloc[0].tolist() == [1, 2]


def test_times_around_a_change_of_the_clock_stay_apart(empty):
    """K09"""
    text = "select unnest(['2026-10-25 00:30:00+00'::timestamptz, '2026-10-25 01:30:00+00'::timestamptz]) as at_"
    frame = to_frame(empty.query(text))

    assert frame.at_.diff().iloc[1] == pd.Timedelta(hours=1)
