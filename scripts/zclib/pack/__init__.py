# SPDX-License-Identifier: MIT
"""zc pack: logs as a data set of Parquet files, a folder a table, for DuckDB, Polars, Spark and all
that read it.  tables has what the columns are, rows what logs come to, write the files."""
