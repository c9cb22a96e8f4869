package iceberg;

import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What Spark finds by the name `iceberg` (it looks for this class) where a server is asked to write
 * `format("iceberg")`: Python writes the rows. Reads are shown to Python before (`RowChanges.java`).
 */
public final class DefaultSource implements CreatableRelationProvider, StreamSinkProvider {
  /** Takes a task as text and an array: the session, the options and the DataFrame; a sink's answer takes batches. */
  private static BiFunction python;

  /** Let a function answer for all sessions of this JVM. */
  public void answerBy(BiFunction function) { python = function; }

  private static Object asked(String what, SQLContext context, scala.collection.immutable.Map options, Object rows) {
    scala.collection.immutable.Map written = options instanceof CaseInsensitiveMap ? ((CaseInsensitiveMap) options).originalMap() : options;
    Map given = CollectionConverters.asJava((scala.collection.Map) written);
    return python.apply(what, new Object[] {context.sparkSession(), given, rows});
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset rows) {
    asked(mode.toString(), context, options, rows);
    return new Written(context, rows.schema());
  }

  public Sink createSink(SQLContext context, scala.collection.immutable.Map options, Seq partitions, OutputMode output) {
    return new Batches((BiFunction) asked("stream " + output, context, options, null));
  }

  /** The table that rows were written to, of which Spark reads nothing. */
  public static final class Written extends BaseRelation {
    private final SQLContext context;
    private final StructType schema;
    public Written(SQLContext context, StructType schema) { this.context = context; this.schema = schema; }
    public SQLContext sqlContext() { return context; }
    public StructType schema() { return schema; }
  }

  /** A stream's sink: each batch is a DataFrame that Python writes, as foreachBatch has it. */
  public static final class Batches implements Sink {
    private final BiFunction python;
    public Batches(BiFunction python) { this.python = python; }
    public void addBatch(long number, Dataset rows) {
      QueryExecution query = ((org.apache.spark.sql.classic.Dataset) rows).queryExecution();
      SparkSession session = (SparkSession) rows.sparkSession();
      python.apply(Long.valueOf(number), session.internalCreateDataFrame(query.toRdd(), rows.schema(), false));
    }
    public String name() { return "iceberg"; }
    public StructType schema() { return new StructType(); }
    public java.util.Set capabilities() { return new java.util.HashSet(); }
    public String toString() { return "iceberg"; }
  }
}
