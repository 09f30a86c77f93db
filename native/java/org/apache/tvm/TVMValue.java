package org.apache.tvm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** An argument or a result: a number, a text, bytes, a device, an array, a module, a function. */
public final class TVMValue {
  public final ArgTypeCode typeCode;
  private final Object value;

  private TVMValue(ArgTypeCode typeCode, Object value) {
    this.typeCode = typeCode;
    this.value = value;
  }

  static boolean isObject(int code) {
    return code >= ArgTypeCode.NODE_HANDLE.id && code <= ArgTypeCode.FUNC_HANDLE.id || code == ArgTypeCode.NDARRAY_CONTAINER.id;
  }

  /** Takes over what a value refers to. */
  static TVMValue of(MemorySegment at, int code) {
    ArgTypeCode type = ArgTypeCode.values()[code];
    Object value = switch (type) {
      case INT, UINT -> at.get(JAVA_LONG_UNALIGNED, 0);
      case BOOL -> at.get(JAVA_LONG_UNALIGNED, 0) != 0;
      case FLOAT -> at.get(JAVA_DOUBLE_UNALIGNED, 0);
      case NULL -> null;
      case TVM_TYPE -> new TVMType(at.get(JAVA_BYTE, 0), at.get(JAVA_BYTE, 1) & 0xff, at.get(JAVA_SHORT_UNALIGNED, 2) & 0xffff);
      case DLDEVICE -> new Device(at.get(JAVA_INT_UNALIGNED, 0), at.get(JAVA_INT_UNALIGNED, 4));
      case STR -> pointer(at).getString(0);
      case BYTES -> {
        MemorySegment cell = pointer(at);
        yield pointer(cell).asSlice(0, cell.get(JAVA_LONG_UNALIGNED, 8)).toArray(JAVA_BYTE);
      }
      case ARRAY_HANDLE -> new NDArray(pointer(at), false);
      case NDARRAY_CONTAINER -> new NDArray(pointer(at), true);
      case MODULE_HANDLE -> new Module(pointer(at));
      case FUNC_HANDLE -> new Function(pointer(at));
      case NODE_HANDLE -> new TVMObject(pointer(at));
      case HANDLE, OBJECT_RVALUE_REF -> at.get(JAVA_LONG_UNALIGNED, 0);
    };
    return new TVMValue(type, value);
  }

  private static MemorySegment pointer(MemorySegment at) {
    return MemorySegment.ofAddress(at.get(JAVA_LONG_UNALIGNED, 0)).reinterpret(Long.MAX_VALUE);
  }

  /** Writes a Java value, whose parts live as long as `arena`; returns its code. */
  static int put(Object value, MemorySegment to, Arena arena) {
    switch (value) {
      case null -> to.set(JAVA_LONG_UNALIGNED, 0, 0);
      case TVMValue v -> {
        return put(v.value, to, arena);
      }
      case Boolean b -> to.set(JAVA_LONG_UNALIGNED, 0, b ? 1 : 0);
      case Float f -> to.set(JAVA_DOUBLE_UNALIGNED, 0, f.doubleValue());
      case Double d -> to.set(JAVA_DOUBLE_UNALIGNED, 0, d);
      case Integer n -> to.set(JAVA_LONG_UNALIGNED, 0, n.longValue());
      case Long n -> to.set(JAVA_LONG_UNALIGNED, 0, n);
      case Short n -> to.set(JAVA_LONG_UNALIGNED, 0, n.longValue());
      case Byte n -> to.set(JAVA_LONG_UNALIGNED, 0, n.longValue());
      case String s -> to.set(JAVA_LONG_UNALIGNED, 0, arena.allocateFrom(s).address());
      case byte[] b -> {
        MemorySegment cell = arena.allocate(16, 8);
        cell.set(JAVA_LONG_UNALIGNED, 0, arena.allocateFrom(JAVA_BYTE, b).address());
        cell.set(JAVA_LONG_UNALIGNED, 8, b.length);
        to.set(JAVA_LONG_UNALIGNED, 0, cell.address());
      }
      case Device d -> {
        to.set(JAVA_INT_UNALIGNED, 0, d.deviceType);
        to.set(JAVA_INT_UNALIGNED, 4, d.deviceId);
      }
      case TVMType t -> {
        to.set(JAVA_BYTE, 0, (byte) t.typeCode);
        to.set(JAVA_BYTE, 1, (byte) t.bits);
        to.set(JAVA_SHORT_UNALIGNED, 2, (short) t.lanes);
      }
      case Handle h -> to.set(JAVA_LONG_UNALIGNED, 0, h.address().address());
      default -> throw new IllegalArgumentException("a packed function takes no " + value.getClass().getName());
    }
    return code(value).id;
  }

  private static ArgTypeCode code(Object value) {
    return switch (value) {
      case null -> ArgTypeCode.NULL;
      case Boolean b -> ArgTypeCode.BOOL;
      case Float f -> ArgTypeCode.FLOAT;
      case Double d -> ArgTypeCode.FLOAT;
      case Number n -> ArgTypeCode.INT;
      case String s -> ArgTypeCode.STR;
      case byte[] b -> ArgTypeCode.BYTES;
      case Device d -> ArgTypeCode.DLDEVICE;
      case TVMType t -> ArgTypeCode.TVM_TYPE;
      case NDArray a -> a.isOwned() ? ArgTypeCode.NDARRAY_CONTAINER : ArgTypeCode.ARRAY_HANDLE;
      case Module m -> ArgTypeCode.MODULE_HANDLE;
      case Function f -> ArgTypeCode.FUNC_HANDLE;
      default -> ArgTypeCode.NODE_HANDLE;
    };
  }

  /** As a Java object: Long, Double, Boolean, String, byte[], Device, TVMType, NDArray, Module, Function; null for nothing. */
  public Object get() {
    return value;
  }

  public long asLong() {
    return value instanceof Boolean b ? (b ? 1 : 0) : as(Long.class, "an integer");
  }

  public double asDouble() {
    return value instanceof Long n ? n.doubleValue() : as(Double.class, "a number");
  }

  public boolean asBoolean() {
    return asLong() != 0;
  }

  public String asString() {
    return as(String.class, "a text");
  }

  public byte[] asBytes() {
    return as(byte[].class, "bytes");
  }

  public Module asModule() {
    return as(Module.class, "a module");
  }

  public Function asFunction() {
    return as(Function.class, "a function");
  }

  public NDArray asNDArray() {
    return as(NDArray.class, "an array");
  }

  public long asHandle() {
    return as(Long.class, "a handle");
  }

  private <T> T as(Class<T> type, String what) {
    if (!type.isInstance(value)) throw new TVMError("TypeError: " + what + " was expected, but the value is of the kind " + typeCode);
    return type.cast(value);
  }
}
