package frazil.spark.jvm;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Iceberg's functions of SQL: one class for each function and type of its value. Spark calls
 * `invoke` from the code that it generates for tasks. It calls no function of numbers with a null
 * among them, but one of objects it does. Frazil's version takes the place of <version>.
 */
public final class Functions {
  /** What Spark asks of each of them. */
  public static abstract class Function implements ScalarFunction {
    private final String name;
    private final DataType[] takes;
    private final DataType returns;
    Function(String name, DataType[] takes, DataType returns) { this.name = name; this.takes = takes; this.returns = returns; }
    public String name() { return name; }
    public DataType[] inputTypes() { return takes; }
    public DataType resultType() { return returns; }
    public boolean isResultNullable() { return takes.length > 0; }
    public boolean isDeterministic() { return true; }
    public String canonicalName() {
      StringBuilder text = new StringBuilder("iceberg." + name + "(");
      for (int i = 0; i < takes.length; i++) { text.append(i == 0 ? "" : ", ").append(takes[i].catalogString()); }
      return text.append(")").toString();
    }
  }

  public static final class BucketInt extends Function {
    public BucketInt(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(int n, int v) { return (Murmur3_x86_32.hashLong((long) v, 0) & Integer.MAX_VALUE) % n; }
  }

  public static final class BucketLong extends Function {
    public BucketLong(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(int n, long v) { return (Murmur3_x86_32.hashLong(v, 0) & Integer.MAX_VALUE) % n; }
  }

  public static final class BucketString extends Function {
    public BucketString(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static Integer invoke(int n, UTF8String v) { if (v == null) { return null; } return (Murmur3_x86_32.hashUnsafeBytes2(v.getBaseObject(), v.getBaseOffset(), v.numBytes(), 0) & Integer.MAX_VALUE) % n; }
  }

  public static final class BucketBinary extends Function {
    public BucketBinary(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static Integer invoke(int n, byte[] v) { if (v == null) { return null; } return (Murmur3_x86_32.hashUnsafeBytes2(v, Platform.BYTE_ARRAY_OFFSET, v.length, 0) & Integer.MAX_VALUE) % n; }
  }

  public static final class BucketDecimal extends Function {
    public BucketDecimal(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static Integer invoke(int n, Decimal v) { if (v == null) { return null; } byte[] b = v.toJavaBigDecimal().unscaledValue().toByteArray(); return (Murmur3_x86_32.hashUnsafeBytes2(b, Platform.BYTE_ARRAY_OFFSET, b.length, 0) & Integer.MAX_VALUE) % n; }
  }

  public static final class TruncateTinyInt extends Function {
    public TruncateTinyInt(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static byte invoke(int n, byte v) { return (byte) (v - (((v % n) + n) % n)); }
  }

  public static final class TruncateSmallInt extends Function {
    public TruncateSmallInt(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static short invoke(int n, short v) { return (short) (v - (((v % n) + n) % n)); }
  }

  public static final class TruncateInt extends Function {
    public TruncateInt(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static int invoke(int n, int v) { return (int) (v - (((v % n) + n) % n)); }
  }

  public static final class TruncateBigInt extends Function {
    public TruncateBigInt(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static long invoke(int n, long v) { return (long) (v - (((v % n) + n) % n)); }
  }

  public static final class TruncateString extends Function {
    public TruncateString(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static UTF8String invoke(int n, UTF8String v) { if (v == null) { return null; } return v.substring(0, n); }
  }

  public static final class TruncateBinary extends Function {
    public TruncateBinary(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static byte[] invoke(int n, byte[] v) { if (v == null) { return null; } return v.length <= n ? v : java.util.Arrays.copyOf(v, n); }
  }

  public static final class TruncateDecimal extends Function {
    public TruncateDecimal(String name, DataType[] takes) { super(name, takes, takes[1]); }
    public static Decimal invoke(int n, Decimal v) { if (v == null) { return null; } BigInteger u = v.toJavaBigDecimal().unscaledValue(); BigInteger w = BigInteger.valueOf((long) n); return Decimal.apply(new BigDecimal(u.subtract(u.mod(w)), v.scale()), v.precision(), v.scale()); }
  }

  public static final class DateToYears extends Function {
    public DateToYears(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(int v) { return LocalDate.ofEpochDay(v).getYear() - 1970; }
  }

  public static final class TimestampToYears extends Function {
    public TimestampToYears(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(long v) { return LocalDate.ofEpochDay(Math.floorDiv(v, 86400000000L)).getYear() - 1970; }
  }

  public static final class DateToMonths extends Function {
    public DateToMonths(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(int v) { return (LocalDate.ofEpochDay(v).getYear() - 1970) * 12 + LocalDate.ofEpochDay(v).getMonthValue() - 1; }
  }

  public static final class TimestampToMonths extends Function {
    public TimestampToMonths(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(long v) { return (LocalDate.ofEpochDay(Math.floorDiv(v, 86400000000L)).getYear() - 1970) * 12 + LocalDate.ofEpochDay(Math.floorDiv(v, 86400000000L)).getMonthValue() - 1; }
  }

  public static final class DateToDays extends Function {
    public DateToDays(String name, DataType[] takes) { super(name, takes, DataTypes.DateType); }
    public static int invoke(int v) { return v; }
  }

  public static final class TimestampToDays extends Function {
    public TimestampToDays(String name, DataType[] takes) { super(name, takes, DataTypes.DateType); }
    public static int invoke(long v) { return (int) Math.floorDiv(v, 86400000000L); }
  }

  public static final class TimestampToHours extends Function {
    public TimestampToHours(String name, DataType[] takes) { super(name, takes, DataTypes.IntegerType); }
    public static int invoke(long v) { return (int) Math.floorDiv(v, 3600000000L); }
  }

  public static final class IcebergVersion extends Function {
    public IcebergVersion(String name, DataType[] takes) { super(name, takes, DataTypes.StringType); }
    public static UTF8String invoke() { return UTF8String.fromString("<version>"); }
  }
}
