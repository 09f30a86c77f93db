package org.apache.tvm;

import java.util.Map;

/** A device: its type and number. */
public final class Device {
  private static final Map<String, Integer> TYPES = Map.ofEntries(Map.entry("cpu", 1), Map.entry("llvm", 1), Map.entry("cuda", 2), Map.entry("gpu", 2),
      Map.entry("opencl", 4), Map.entry("cl", 4), Map.entry("vulkan", 7), Map.entry("metal", 8), Map.entry("vpi", 9), Map.entry("rocm", 10), Map.entry("ext_dev", 12));
  public final int deviceType;
  public final int deviceId;

  public Device(int deviceType, int deviceId) {
    this.deviceType = deviceType;
    this.deviceId = deviceId;
  }

  /** @param deviceType a name such as "cuda" */
  public Device(String deviceType, int deviceId) {
    Integer type = TYPES.get(deviceType);
    if (type == null) throw new IllegalArgumentException("unknown device type " + deviceType);
    this.deviceType = type;
    this.deviceId = deviceId;
  }

  public static Device cpu(int id) {
    return new Device(1, id);
  }

  public static Device cpu() {
    return cpu(0);
  }

  public static Device cuda(int id) {
    return new Device(2, id);
  }

  public static Device cuda() {
    return cuda(0);
  }

  public static Device opencl(int id) {
    return new Device(4, id);
  }

  public static Device vulkan(int id) {
    return new Device(7, id);
  }

  public static Device metal(int id) {
    return new Device(8, id);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Device o && deviceType == o.deviceType && deviceId == o.deviceId;
  }

  @Override
  public int hashCode() {
    return deviceType << 16 | deviceId;
  }

  @Override
  public String toString() {
    return (deviceType == 1 ? "cpu" : "device of type " + deviceType) + "(" + deviceId + ")";
  }
}
