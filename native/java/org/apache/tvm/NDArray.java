package org.apache.tvm;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** An array on a device. */
public final class NDArray extends Handle {
  private final boolean owned;

  /** owned: a reference of ours; else a view that is valid during a call. */
  NDArray(MemorySegment address, boolean owned) {
    super(address.reinterpret(48), owned ? "TVMArrayFree" : null);
    this.owned = owned;
  }

  boolean isOwned() {
    return owned;
  }

  public static NDArray empty(long[] shape, TVMType dtype, Device device) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      Native.call("TVMArrayAlloc", arena.allocateFrom(JAVA_LONG, shape), shape.length, dtype.typeCode, dtype.bits, dtype.lanes, device.deviceType, device.deviceId, out);
      return new NDArray(out.get(ADDRESS, 0), true);
    }
  }

  public static NDArray empty(long[] shape, TVMType dtype) {
    return empty(shape, dtype, Device.cpu());
  }

  public static NDArray empty(long[] shape) {
    return empty(shape, new TVMType("float32"));
  }

  // The fields of a DLTensor.
  public Device device() {
    return new Device(address().get(JAVA_INT, 8), address().get(JAVA_INT, 12));
  }

  public TVMType dtype() {
    return new TVMType(address().get(JAVA_BYTE, 20), address().get(JAVA_BYTE, 21) & 0xff, address().get(JAVA_SHORT, 22) & 0xffff);
  }

  public long[] shape() {
    int ndim = address().get(JAVA_INT, 16);
    return address().get(Native.POINTER, 24).asSlice(0, 8L * ndim).toArray(JAVA_LONG);
  }

  /** The number of elements. */
  public long size() {
    long all = 1;
    for (long extent : shape()) all *= extent;
    return all;
  }

  public void copyFrom(float[] elements) {
    copy(MemorySegment.ofArray(elements), "float32");
  }

  public void copyFrom(double[] elements) {
    copy(MemorySegment.ofArray(elements), "float64");
  }

  public void copyFrom(int[] elements) {
    copy(MemorySegment.ofArray(elements), "int32");
  }

  public void copyFrom(long[] elements) {
    copy(MemorySegment.ofArray(elements), "int64");
  }

  public void copyFrom(short[] elements) {
    copy(MemorySegment.ofArray(elements), "int16");
  }

  public void copyFrom(byte[] elements) {
    copy(MemorySegment.ofArray(elements), "int8");
  }

  /** The bytes of elements of any type. */
  public void copyFromRaw(byte[] bytes) {
    copy(MemorySegment.ofArray(bytes), null);
  }

  private void copy(MemorySegment elements, String type) {
    need(type);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = arena.allocate(Math.max(elements.byteSize(), 1), 64);
      bytes.copyFrom(elements);
      Native.call("TVMArrayCopyFromBytes", address(), bytes, elements.byteSize());
    }
  }

  private void need(String type) {
    if (type != null && !dtype().equals(new TVMType(type))) throw new IllegalArgumentException("an array of " + dtype() + " has no elements of type " + type);
  }

  private MemorySegment bytes(Arena arena, String type) {
    need(type);
    long size = size() * dtype().numOfBytes;
    MemorySegment bytes = arena.allocate(Math.max(size, 1), 64);
    Native.call("TVMArrayCopyToBytes", address(), bytes, size);
    return bytes.asSlice(0, size);
  }

  public float[] asFloatArray() {
    try (Arena arena = Arena.ofConfined()) {
      return bytes(arena, "float32").toArray(JAVA_FLOAT);
    }
  }

  public double[] asDoubleArray() {
    try (Arena arena = Arena.ofConfined()) {
      return bytes(arena, "float64").toArray(JAVA_DOUBLE);
    }
  }

  public int[] asIntArray() {
    try (Arena arena = Arena.ofConfined()) {
      return bytes(arena, "int32").toArray(JAVA_INT);
    }
  }

  public long[] asLongArray() {
    try (Arena arena = Arena.ofConfined()) {
      return bytes(arena, "int64").toArray(JAVA_LONG);
    }
  }

  public short[] asShortArray() {
    try (Arena arena = Arena.ofConfined()) {
      return bytes(arena, "int16").toArray(JAVA_SHORT);
    }
  }

  public byte[] internal() {
    try (Arena arena = Arena.ofConfined()) {
      return bytes(arena, null).toArray(JAVA_BYTE);
    }
  }

  /** Copies the elements into another array of the same size; returns it. */
  public NDArray copyTo(NDArray other) {
    Native.call("TVMArrayCopyFromTo", address(), other.address(), MemorySegment.NULL);
    return other;
  }
}
