package frazil.spark.jvm;

import java.lang.reflect.Field;
import java.util.function.BiFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.PlanLater;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A strategy of a session's planner: a batch of a stream into a table is a DataFrame that Python
 * writes, as foreachBatch has it. Spark asks a table of a catalog for writers of its tasks instead.
 */
public final class StreamWrites extends SparkStrategy {
  private final SparkSession session;
  public StreamWrites(SparkSession session) { this.session = session; }

  /** Make such a strategy one of the sessions that the JVM makes of this one. */
  public void addToNewSessions() { session.extensions().injectPlannerStrategy(new ForNewSessions()); }

  /** Make the strategy one of the session's, beside the user's own. */
  public void add() {
    Seq own = session.experimental().extraStrategies();
    for (int n = 0; n < own.size(); n++) { if (own.apply(n) instanceof StreamWrites) { return; } }
    session.experimental().extraStrategies_$eq((Seq) own.appended(this));
  }

  public Seq apply(LogicalPlan plan) {
    if (plan instanceof WriteToDataSourceV2 && ((WriteToDataSourceV2) plan).batchWrite() instanceof MicroBatchWrite) {
      BatchWrite batch = ((WriteToDataSourceV2) plan).batchWrite();
      Object writes = valueOf(batch, "writeSupport");
      if (writes instanceof Batches) {
        Object query = new PlanLater(((WriteToDataSourceV2) plan).query());
        return (Seq) Nil$.MODULE$.prepended(new Batch(((Batches) writes).python, (Long) valueOf(batch, "epochId"), (SparkPlan) query));
      }
    }
    return Nil$.MODULE$;
  }

  private static Object valueOf(Object owner, String name) {
    try {
      Field field = owner.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(owner);
    } catch (Exception e) { throw new IllegalStateException(e); }
  }

  /** What a table's stream is written by: a function that takes a batch's number and DataFrame. */
  public static final class Batches implements StreamingWrite {
    private final BiFunction python;
    public Batches(BiFunction python) { this.python = python; }
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) { throw new UnsupportedOperationException("Frazil's class StreamWrites is not in this session."); }
    public void commit(long batch, WriterCommitMessage[] messages) { }
    public void abort(long batch, WriterCommitMessage[] messages) { }
    public String toString() { return "frazil"; }
  }

  /** The command that writes a batch. */
  public static final class Batch extends SparkPlan {
    private final BiFunction python;
    private final Long number;
    private final SparkPlan rows;
    public Batch(BiFunction python, Long number, SparkPlan rows) { this.python = python; this.number = number; this.rows = rows; }
    public Seq output() { return Nil$.MODULE$; }
    public Seq children() { return (Seq) Nil$.MODULE$.prepended(rows); }
    public TreeNode withNewChildrenInternal(IndexedSeq children) { return new Batch(python, number, (SparkPlan) children.head()); }
    public InternalRow[] executeCollect() {
      SparkSession here = (SparkSession) session();
      python.apply(number, here.internalCreateDataFrame(rows.execute(), rows.schema(), false));
      return new InternalRow[0];
    }
    public RDD doExecute() { throw new UnsupportedOperationException("A stream's batch has no rows."); }
    public int productArity() { return 3; }
    public Object productElement(int n) { return n == 0 ? (Object) python : n == 1 ? (Object) number : rows; }
    public boolean canEqual(Object other) { return other instanceof Batch; }
    public String nodeName() { return "WriteStreamToTable"; }
  }

  public static final class ForNewSessions extends AbstractFunction1 {
    public Object apply(Object session) { return new StreamWrites((SparkSession) session); }
  }
}
