package org.apache.tvm;

import java.lang.foreign.MemorySegment;

/** An object of the runtime that Java passes on: a list, a value of a data type. */
public final class TVMObject extends Handle {
  TVMObject(MemorySegment address) {
    super(address, "TVMObjectFree");
  }
}
