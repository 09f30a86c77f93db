// Types of the machine's values, their end, and how hosts see them.
#include "values.h"

extern "C" int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* key, int32_t static_index, int32_t depth, int32_t slots,
                                             int32_t overflow, int32_t parent);

namespace tw {

static int32_t type_of(const char* key) {
  TVMFFIByteArray name{key, strlen(key)};
  return TVMFFITypeGetOrAllocIndex(&name, -1, 1, 0, 1, kTVMFFIObject);
}
int32_t adt_type() {
  static const int32_t index = type_of("tilewright.ADT");
  return index;
}
int32_t closure_type() {
  static const int32_t index = type_of("tilewright.VMClosure");
  return index;
}
int32_t ref_type() {
  static const int32_t index = type_of("tilewright.VMRef");
  return index;
}

void drop_all(std::vector<TVMFFIAny>& values) {
  thread_local std::vector<TVMFFIAny>* pending = nullptr;
  if (pending) {
    pending->insert(pending->end(), values.begin(), values.end());
    values.clear();
    return;
  }
  std::vector<TVMFFIAny> queue(std::move(values));
  values.clear();
  pending = &queue;
  while (!queue.empty()) {
    TVMFFIAny last = queue.back();
    queue.pop_back();
    destroy(last);
  }
  pending = nullptr;
}

std::string described(const TVMFFIAny& v) {
  switch (v.type_index) {
    case kTVMFFINone: return "nothing";
    case kTVMFFIInt: return "an integer";
    case kTVMFFIBool: return "a bool";
    case kTVMFFIFloat: return "a float";
    case kTVMFFITensor: case kTVMFFIDLTensorPtr: return "a tensor";
    case kTVMFFIArray: case kTVMFFIList: return "a list";
    case kTVMFFIFunction: return "a function of the host";
    default: break;
  }
  if (is_string(v)) return "a string";
  if (v.type_index == adt_type()) return "a tuple or a value of a data type";
  if (v.type_index == closure_type()) return "a function";
  if (v.type_index == ref_type()) return "a reference";
  return format("a value of type index %d", v.type_index);
}

namespace {

void register_containers() {
  register_global("runtime.ADTTypeIndex", [](Args) { return from_int(adt_type()); });
  register_global("runtime.VMClosureTypeIndex", [](Args) { return from_int(closure_type()); });
  register_global("runtime.ADT", [](Args args) {
    std::vector<TVMFFIAny> fields;
    int64_t tag = as_int(args[0], "the tag");
    for (int32_t i = 1; i < args.count; ++i) fields.push_back(own(args[i]));
    return from_object(&make<AdtObject>(static_cast<int32_t>(tag), std::move(fields))->header);
  });
  register_global("runtime.VMRef", [](Args args) { return from_object(&make<RefObject>(own(args[0]))->header); });
  register_global("runtime.VMRefTypeIndex", [](Args) { return from_int(ref_type()); });
  register_global("runtime.VMRefGet", [](Args args) {
    if (args[0].type_index != ref_type()) fail("TypeError", "a reference was expected, but %s was given", described(args[0]).c_str());
    return own(reinterpret_cast<RefObject*>(args[0].v_obj)->cell[0]);
  });
  static auto adt = [](const TVMFFIAny& v) {
    if (v.type_index != adt_type()) fail("TypeError", "a value of a data type was expected, but %s was given", described(v).c_str());
    return reinterpret_cast<AdtObject*>(v.v_obj);
  };
  register_global("runtime.GetADTTag", [](Args args) { return from_int(adt(args[0])->tag); });
  register_global("runtime.GetADTSize", [](Args args) { return from_int(static_cast<int64_t>(adt(args[0])->fields.size())); });
  register_global("runtime.GetADTFields", [](Args args) {
    auto& fields = adt(args[0])->fields;
    int64_t i = as_int(args[1], "the field's index");
    if (i < 0 || static_cast<size_t>(i) >= fields.size()) fail("IndexError", "field %lld of a value with %zu was asked for", static_cast<long long>(i), fields.size());
    return own(fields[static_cast<size_t>(i)]);
  });
}
const int containers_registered = (register_containers(), 0);

}  // namespace
}  // namespace tw
