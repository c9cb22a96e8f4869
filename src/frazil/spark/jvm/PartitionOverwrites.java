package frazil.spark.jvm;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.OverwriteByExpressionExecV1;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction0;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * A strategy of a session's planner: Spark has plans for appends and overwrites of tables that take
 * rows as a DataFrame, but none for the overwrite of the partitions that the rows fall into.
 */
public final class PartitionOverwrites extends SparkStrategy {
  private final SparkSession session;
  public PartitionOverwrites(SparkSession session) { this.session = session; }

  /** Make such a strategy one of the sessions that the JVM makes of this one. */
  public void addToNewSessions() { session.extensions().injectPlannerStrategy(new ForNewSessions()); }

  /** Make the strategy one of the session's, beside the user's own. */
  public void add() {
    Seq own = session.experimental().extraStrategies();
    for (int n = 0; n < own.size(); n++) { if (own.apply(n) instanceof PartitionOverwrites) { return; } }
    session.experimental().extraStrategies_$eq((Seq) own.appended(this));
  }

  public Seq apply(LogicalPlan plan) {
    if (plan instanceof OverwritePartitionsDynamic) {
      OverwritePartitionsDynamic overwrite = (OverwritePartitionsDynamic) plan;
      Object target = overwrite.productElement(0);
      Object write = overwrite.write().isDefined() ? overwrite.write().get() : null;
      if (write instanceof V1Write && target instanceof DataSourceV2Relation) {
        DataSourceV2Relation relation = (DataSourceV2Relation) target;
        Object planned = new OverwriteByExpressionExecV1((SupportsWrite) relation.table(), overwrite.query(), new Refresh(session, relation), (V1Write) write);
        return (Seq) Nil$.MODULE$.prepended(planned);
      }
    }
    return Nil$.MODULE$;
  }

  public static final class Refresh extends AbstractFunction0 {
    private final SparkSession session;
    private final LogicalPlan relation;
    public Refresh(SparkSession session, LogicalPlan relation) { this.session = session; this.relation = relation; }
    public Object apply() { session.sharedState().cacheManager().recacheByPlan(session, relation); return BoxedUnit.UNIT; }
  }

  public static final class ForNewSessions extends AbstractFunction1 {
    public Object apply(Object session) { return new PartitionOverwrites((SparkSession) session); }
  }
}
