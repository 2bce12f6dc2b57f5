import pandas as pd
import pytest
from tiny import ROOT

from papers.f_grpo.theory import tables as f_grpo
from papers.two_stage.theory import tables as two_stage

TABLES = {
    "f_grpo/theory/tail_miss.csv": f_grpo.tail_miss_table,
    "f_grpo/theory/one_step.csv.gz": lambda: f_grpo.one_step_table(seeds=200),
    "f_grpo/theory/lemma_b1.csv": lambda: f_grpo.lemma_b1_table(seeds=10),
    "two_stage/theory/theorem1.csv": two_stage.theorem1_table,
    "two_stage/theory/remark2.csv": two_stage.remark2_table,
    "two_stage/theory/proposition1.csv": two_stage.proposition1_table,
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_stored_ones(name):
    stored = pd.read_csv(ROOT / "results" / "reference" / name)
    made = TABLES[name]().reset_index(drop=True)
    pd.testing.assert_frame_equal(made, stored, check_dtype=False, rtol=1e-6, atol=1e-9)
