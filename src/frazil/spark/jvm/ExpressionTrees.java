package frazil.spark.jvm;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionDef;
import org.apache.spark.sql.catalyst.expressions.CommonExpressionRef;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.VariableReference;
import org.apache.spark.sql.catalyst.expressions.With;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writes a resolved expression of Catalyst as JSON: each node with its class, its type, whatever its
 * constructor holds beside expressions (evaluation mode, time zone, switches) and its children.
 *
 * <p>Functions that stand for others are written as those, variables of SQL as their values, and parts
 * without columns as the constants that Spark makes of them, by their internal values. Its answer to
 * what it cannot write is null.
 */
public final class ExpressionTrees implements java.util.function.Function {
  private static final int MOST_VALUES = 10000; // of a set; a larger one is written without them
  private static final String OURS = "org.apache.spark.sql.catalyst.expressions.";

  public Object apply(Object given) {
    try {
      Expression expression = (Expression) given;
      boolean fixed = !expression.containsPattern(TreePattern$.MODULE$.CURRENT_LIKE());
      StringBuilder out = new StringBuilder();
      write(plain(expression, new HashMap()), fixed, out);
      return out.toString();
    } catch (StackOverflowError tooDeep) {
      return null;
    }
  }

  /** Puts in what stands for an expression when it is computed; names of common parts by their ids. */
  private static Expression plain(Expression e, Map common) {
    if (e instanceof VariableReference) {
      return ((VariableReference) e).varDef().currentValue();
    }
    if (e instanceof RuntimeReplaceable) {
      return plain(((RuntimeReplaceable) e).replacement(), common);
    }
    if (e instanceof CommonExpressionRef) {
      Object shared = common.get(((CommonExpressionRef) e).id());
      return shared == null ? e : (Expression) shared;
    }
    if (e instanceof With) {
      Object[] definitions = list(((With) e).defs());
      for (int n = 0; n < definitions.length; n++) {
        CommonExpressionDef definition = (CommonExpressionDef) definitions[n];
        common.put(definition.id(), plain(definition.child(), common));
      }
      return plain(((With) e).child(), common);
    }
    Object[] children = list(e.children());
    boolean same = true;
    java.util.ArrayList changed = new java.util.ArrayList();
    for (int n = 0; n < children.length; n++) {
      Expression child = plain((Expression) children[n], common);
      same = same && child == children[n];
      changed.add(child);
    }
    if (same) {
      return e;
    }
    return (Expression)
        e.withNewChildren(scala.jdk.javaapi.CollectionConverters.asScala((java.util.List) changed).toSeq());
  }

  private static void write(Expression e, boolean fixed, StringBuilder out) {
    if (e instanceof Literal) {
      constant(((Literal) e).value(), e.dataType(), out);
      return;
    }
    if (fixed && e.deterministic() && e.foldable()) {
      Object value;
      try {
        value = e.eval(null);
      } catch (Exception fails) { // where no row reaches it, it does not fail
        node(e, fixed, out);
        return;
      }
      constant(value, e.dataType(), out);
      return;
    }
    node(e, fixed, out);
  }

  private static void node(Expression e, boolean fixed, StringBuilder out) {
    String name = e.getClass().getName();
    out.append("{\"class\":").append(quoted(name.startsWith(OURS) ? name.substring(OURS.length()) : name));
    out.append(",\"type\":").append(quoted(e.resolved() ? e.dataType().typeName() : "unresolved"));
    if (e instanceof AttributeReference) {
      out.append(",\"id\":").append(((AttributeReference) e).exprId().id());
      out.append(",\"name\":").append(quoted(((AttributeReference) e).name())).append("}");
      return;
    }
    if (e instanceof GetStructField) {
      GetStructField member = (GetStructField) e;
      String called = ((StructType) member.child().dataType()).fields()[member.ordinal()].name();
      out.append(",\"member\":").append(quoted(called));
    } else if (!(e instanceof InSet)) {
      out.append(",\"fields\":{");
      fields(e, true, out);
      out.append("}");
    }
    out.append(",\"children\":[");
    Object[] children = e instanceof And || e instanceof Or ? parts(e) : list(e.children());
    for (int n = 0; n < children.length; n++) {
      out.append(n == 0 ? "" : ",");
      write((Expression) children[n], fixed, out);
    }
    if (e instanceof InSet && ((InSet) e).hset().size() <= MOST_VALUES) {
      scala.collection.Iterator values = ((InSet) e).hset().iterator();
      while (values.hasNext()) {
        out.append(",");
        constant(values.next(), ((InSet) e).child().dataType(), out);
      }
    }
    out.append("]}");
  }

  /** Writes what a constructor takes beside expressions and types; a question mark for other objects. */
  private static boolean fields(scala.Product of, boolean first, StringBuilder out) {
    for (int n = 0; n < of.productArity(); n++) {
      Object value = of.productElement(n);
      if (value instanceof scala.Option) {
        if (((scala.Option) value).isEmpty()) {
          continue;
        }
        value = ((scala.Option) value).get();
      }
      if (value instanceof Expression || value instanceof DataType || isOfExpressions(value)) {
        continue;
      }
      if (value != null && value.getClass().getName().endsWith(".NumericEvalContext")) {
        first = fields((scala.Product) value, first, out);
        continue;
      }
      boolean plain =
          value instanceof Boolean || value instanceof Number || value instanceof String
              || value instanceof Character || value instanceof scala.Enumeration.Value;
      out.append(first ? "" : ",").append(quoted(of.productElementName(n))).append(":");
      out.append(quoted(plain ? value.toString() : "?"));
      first = false;
    }
    return first;
  }

  private static boolean isOfExpressions(Object value) {
    if (!(value instanceof scala.collection.immutable.Seq)) {
      return false;
    }
    Object[] all = list((scala.collection.immutable.Seq) value);
    for (int n = 0; n < all.length; n++) {
      if (all[n] instanceof scala.Tuple2) { // the branches of a CASE
        if (!(((scala.Tuple2) all[n])._1() instanceof Expression)) {
          return false;
        }
      } else if (!(all[n] instanceof Expression)) {
        return false;
      }
    }
    return true;
  }

  /** Returns all that ANDs or ORs within each other join: long chains are as deep as they are long. */
  private static Object[] parts(Expression e) {
    java.util.ArrayList parts = new java.util.ArrayList();
    ArrayDeque open = new ArrayDeque();
    open.push(e);
    while (!open.isEmpty()) {
      Expression next = (Expression) open.pop();
      if (next.getClass() == e.getClass()) {
        Object[] sides = list(next.children());
        open.push(sides[1]);
        open.push(sides[0]);
      } else {
        parts.add(next);
      }
    }
    return parts.toArray();
  }

  /** Writes a constant by its internal value; without a value one of a type that has no such form. */
  private static void constant(Object value, DataType type, StringBuilder out) {
    String name = type.typeName();
    out.append("{\"class\":\"Literal\",\"type\":").append(quoted(name));
    if (value == null) {
      out.append(",\"value\":null");
    } else if (value instanceof Boolean || value instanceof Byte || value instanceof Short
        || value instanceof Integer || value instanceof Long) {
      out.append(",\"value\":").append(value);
    } else if (value instanceof Double) {
      out.append(",\"value\":").append(Double.doubleToRawLongBits(((Double) value).doubleValue()));
    } else if (value instanceof Float) {
      out.append(",\"value\":").append(Double.doubleToRawLongBits(((Float) value).doubleValue()));
    } else if (value instanceof Decimal) {
      out.append(",\"value\":").append(((Decimal) value).toJavaBigDecimal().unscaledValue());
    } else if (value instanceof UTF8String) {
      out.append(",\"value\":").append(bytes(((UTF8String) value).getBytes()));
    } else if (value instanceof byte[]) {
      out.append(",\"value\":").append(bytes((byte[]) value));
    }
    out.append("}");
  }

  private static String bytes(byte[] value) {
    return "\"" + java.util.Base64.getEncoder().encodeToString(value) + "\"";
  }

  private static Object[] list(scala.collection.Seq values) {
    Object[] all = new Object[values.size()];
    for (int n = 0; n < all.length; n++) {
      all[n] = values.apply(n);
    }
    return all;
  }

  private static String quoted(String text) {
    return '"' + new String(JsonStringEncoder.getInstance().quoteAsString(text)) + '"';
  }
}
