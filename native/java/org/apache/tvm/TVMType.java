package org.apache.tvm;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The type of elements: "float32", "int8", "uint8", "bool", "float16", ... with lanes, as in "float32x4". */
public final class TVMType {
  private static final Pattern FORM = Pattern.compile("(int|uint|float|bfloat|bool|handle)(\\d*)(?:x(\\d+))?");
  public static final int INT = 0;
  public static final int UINT = 1;
  public static final int FLOAT = 2;
  public static final int HANDLE = 3;
  public static final int BFLOAT = 4;
  public static final int BOOL = 6;
  public final int typeCode;
  public final int bits;
  public final int lanes;
  public final int numOfBytes;

  public TVMType(String type) {
    Matcher m = FORM.matcher(type);
    if (!m.matches()) throw new IllegalArgumentException("unknown data type " + type);
    String base = m.group(1);
    typeCode = switch (base) {
      case "int" -> INT;
      case "float" -> FLOAT;
      case "bfloat" -> BFLOAT;
      case "handle" -> HANDLE;
      case "bool" -> BOOL;
      default -> UINT;
    };
    bits = !m.group(2).isEmpty() ? Integer.parseInt(m.group(2)) : base.equals("bool") ? 8 : base.equals("handle") ? 64 : base.equals("bfloat") ? 16 : 32;
    lanes = m.group(3) == null ? 1 : Integer.parseInt(m.group(3));
    numOfBytes = (bits * lanes + 7) / 8;
  }

  TVMType(int typeCode, int bits, int lanes) {
    this.typeCode = typeCode;
    this.bits = bits;
    this.lanes = lanes;
    numOfBytes = (bits * lanes + 7) / 8;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof TVMType o && typeCode == o.typeCode && bits == o.bits && lanes == o.lanes;
  }

  @Override
  public int hashCode() {
    return (typeCode << 16) | (bits << 8) | lanes;
  }

  @Override
  public String toString() {
    if (typeCode == BOOL) return lanes > 1 ? "boolx" + lanes : "bool";
    String base = switch (typeCode) {
      case INT -> "int";
      case UINT -> "uint";
      case FLOAT -> "float";
      case HANDLE -> "handle";
      case BFLOAT -> "bfloat";
      default -> "custom[" + typeCode + "]";
    };
    return base + bits + (lanes > 1 ? "x" + lanes : "");
  }
}
