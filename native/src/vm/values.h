// Values that programs of the virtual machine make besides tensors: data types and tuples, references, closures.
#pragma once
#include "../core.h"

namespace tw {

int32_t adt_type();
int32_t closure_type();
int32_t ref_type();

// Drops owned values; chains of them link by link, so that lists may be as long as memory.
void drop_all(std::vector<TVMFFIAny>& values);
// What a value is, in words: "a tensor", "a string".
std::string described(const TVMFFIAny& v);

// A value of an algebraic data type, or a tuple (tag 0).
struct AdtObject : ObjectBase<AdtObject> {
  int32_t tag;
  uint32_t size;                  // programs in C++ see it and the tag as they lie here (ADTObj)
  std::vector<TVMFFIAny> fields;  // owned
  AdtObject(int32_t t, std::vector<TVMFFIAny> f) : ObjectBase(adt_type()), tag(t), size(static_cast<uint32_t>(f.size())), fields(std::move(f)) {}
  ~AdtObject() { drop_all(fields); }
};
struct RefObject : ObjectBase<RefObject> {
  std::vector<TVMFFIAny> cell;
  explicit RefObject(TVMFFIAny owned) : ObjectBase(ref_type()), cell{owned} {}
  ~RefObject() { drop_all(cell); }
};
struct ClosureObject : ObjectBase<ClosureObject> {
  const void* home;  // the program that it belongs to
  int32_t function;
  std::vector<TVMFFIAny> captured;
  ClosureObject(const void* home, int32_t function, std::vector<TVMFFIAny> captured)
      : ObjectBase(closure_type()), home(home), function(function), captured(std::move(captured)) {}
  ~ClosureObject() { drop_all(captured); }
};

}  // namespace tw
