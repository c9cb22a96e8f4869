# Put before code that runs in Java Iceberg's environment: argv[1] is the jar, argv[2] the warehouse of the Hadoop catalog `j`.
import os
import sys

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
settings = {
    "spark.jars": sys.argv[1],
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.j": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.j.type": "hadoop",
    "spark.sql.catalog.j.warehouse": sys.argv[2],
    "spark.sql.catalog.j.cache-enabled": "false",
}
builder = SparkSession.builder.master("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
