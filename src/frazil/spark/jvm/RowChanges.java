package frazil.spark.jvm;

import java.lang.reflect.Field;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A rule of a session's analyser, before names are resolved: a DELETE, UPDATE or MERGE that no text
 * was parsed for (`Dataset.mergeInto` of Scala and of Spark Connect) is shown to Python, and the
 * session's first plan lets Python make the catalogs known.
 */
public final class RowChanges extends Rule {
  /** On a plan that Spark is to run as it is. */
  private static final TreeNodeTag LEFT = new TreeNodeTag("frazil.left");
  private final SparkSession session;
  private Function sessions;
  private Function statements;
  private Thread asking;

  /** `sessions`: gives, of a session, what is shown its plans: returns another plan, or null. */
  public RowChanges(SparkSession session, Function sessions) { this.session = session; this.sessions = sessions; }

  /** Make such a rule one of the sessions that the JVM makes of this one. */
  public void addToNewSessions() { session.extensions().injectHintResolutionRule(new ForNewSessions(sessions)); }

  /** Make the rule one of the session's, whose analyser may be there already. */
  public void add() throws Exception {
    Analyzer analyser = session.sessionState().analyzer();
    Seq rules = analyser.hintResolutionRules();
    for (int n = 0; n < rules.size(); n++) {
      if (rules.apply(n) instanceof RowChanges) {
        RowChanges there = (RowChanges) rules.apply(n);
        there.sessions = sessions;
        there.statements = null;
        return;
      }
    }
    Field field = analyser.getClass().getDeclaredField("hintResolutionRules");
    field.setAccessible(true);
    field.set(analyser, rules.appended(this));
  }

  public TreeNode apply(TreeNode plan) {
    // Python analyses plans of its own while it is asked.
    if (asking == Thread.currentThread() || plan.getTagValue(LEFT).isDefined()) { return plan; }
    boolean changes = isNamed(plan instanceof DeleteFromTable ? ((DeleteFromTable) plan).table()
        : plan instanceof UpdateTable ? ((UpdateTable) plan).table()
        : plan instanceof MergeIntoTable ? ((MergeIntoTable) plan).targetTable() : null);
    if (statements == null && (changes || !"true".equals(session.conf().get("spark.frazil.installed", "false")))) {
      asking = Thread.currentThread();
      try { statements = (Function) sessions.apply(session); } finally { asking = null; }
    }
    Object taken = changes ? statements.apply(plan) : null;
    return taken == null ? plan : (TreeNode) taken;
  }

  private static boolean isNamed(LogicalPlan table) {
    return table instanceof UnresolvedRelation || (table instanceof SubqueryAlias && ((SubqueryAlias) table).child() instanceof UnresolvedRelation);
  }

  public static final class ForNewSessions extends AbstractFunction1 {
    private final Function sessions;
    public ForNewSessions(Function sessions) { this.sessions = sessions; }
    public Object apply(Object session) { return new RowChanges((SparkSession) session, sessions); }
  }
}
