"""A night under Apache Airflow 3: put this file into the DAG folder.

The data interval of a run is the night before it, so that a catch-up judges each night that was missed.
"""

from __future__ import annotations

import datetime as dt

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

with DAG(
    "specledger",
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=dt.datetime(2026, 11, 1, tzinfo=dt.UTC),
    catchup=True,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=10)},
    doc_md=__doc__,
):
    # Exit code 4 is tried again; 1 (a gate failed) and 3 (a required gate has no answer) are answers, told by skipping.
    BashOperator(
        task_id="night",
        bash_command=(
            "specledger --log-format json nightly --config /etc/specledger/specledger.toml "
            "--date {{ data_interval_start.in_timezone('UTC').to_date_string() }}"
        ),
        skip_on_exit_code=[1, 3],
    )
