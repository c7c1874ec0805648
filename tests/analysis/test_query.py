"""SQL over a lab, as a frame."""

import numpy as np
import pandas as pd
import pytest

from agentflex_nb.analysis.query import sql
from agentflex_nb.core.errors import QueryError


def test_an_aggregate_arrives_under_the_contract(archive):
    found = sql(archive, "select status, count(*) as n, sum(step_count) as steps from turns group by 1 order by 1")

    assert [str(dtype) for dtype in found.dtypes] == ["str", "Int64", "Int64"]
    assert found.values.tolist() == [["COMPLETED", 1, 2], ["READY", 1, 1], ["WAITING_FOR_APPROVAL", 1, 1]]


def test_parameters_go_by_place_or_by_name(archive):
    assert sql(archive, "select turn_id from turns where step_count = ?", [np.int64(2)]).turn_id.tolist() == ["t1"]
    assert sql(archive, "select turn_id from turns where turn_id = $id", {"id": "t2"}).turn_id.tolist() == ["t2"]


def test_the_lab_wins_over_a_variable_of_the_notebook(archive):
    """K10."""
    turns = pd.DataFrame({"turn_id": ["mine"]})  # noqa: F841

    assert set(sql(archive, "from turns").turn_id) == {"t1", "t2", "t3"}


def test_a_frame_can_be_joined_when_it_is_lent(archive):
    rewards = pd.DataFrame({"turn_id": ["t1", "t2"], "reward": [1.0, 0.0]})
    found = sql(
        archive, "select reward from turns join rewards using (turn_id) order by turn_id", tables={"rewards": rewards}
    )

    assert found.reward.tolist() == [1.0, 0.0]


def test_a_file_can_be_queried_beside_the_lab(archive, tmp_path):
    pd.DataFrame({"turn_id": ["t1"], "reward": [1.0]}).to_parquet(tmp_path / "rewards.parquet")
    path = str(tmp_path / "rewards.parquet")

    assert sql(archive, f"select reward from turns join '{path}' using (turn_id)").reward.tolist() == [1.0]


def test_a_question_changes_nothing_unless_it_may(archive):
    with pytest.raises(QueryError, match="write=True"):
        sql(archive, "create table mine as select 1 as x")
    sql(archive, "create table mine as select 1 as x", write=True)

    assert sql(archive, "from mine").x.tolist() == [1]
