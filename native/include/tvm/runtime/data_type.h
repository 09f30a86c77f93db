// Data types of elements.
#ifndef TVM_RUNTIME_DATA_TYPE_H_
#define TVM_RUNTIME_DATA_TYPE_H_

#include <functional>
#include <ostream>
#include <string>

#include "c_runtime_api.h"
#include "logging.h"

namespace tvm {
namespace runtime {

inline std::string DLDataType2String(DLDataType t);
inline DLDataType String2DLDataType(std::string text);

class DataType {
 public:
  enum TypeCode { kInt = kDLInt, kUInt = kDLUInt, kFloat = kDLFloat, kHandle = kDLOpaque, kBFloat = kDLBfloat, kE4M3Float = 10U, kE5M2Float = 12U, kCustomBegin = 129 };
  DataType() : DataType(Void()) {}
  explicit DataType(DLDataType dtype) : data_(dtype) {}
  DataType(int code, int bits, int lanes) : data_{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)} {}
  int code() const { return data_.code; }
  int bits() const { return data_.bits; }
  int bytes() const { return (bits() + 7) / 8; }
  int lanes() const { return data_.lanes; }
  bool is_scalar() const { return lanes() == 1; }
  bool is_vector() const { return lanes() > 1; }
  bool is_bool() const { return (code() == kUInt && bits() == 1) || code() == kDLBool; }
  bool is_float() const { return code() == kFloat; }
  bool is_float16() const { return is_float() && bits() == 16; }
  bool is_float8() const { return bits() == 8 && (code() == kE4M3Float || code() == kE5M2Float); }
  bool is_e4m3_float8() const { return bits() == 8 && code() == kE4M3Float; }
  bool is_e5m2_float8() const { return bits() == 8 && code() == kE5M2Float; }
  bool is_bfloat16() const { return code() == kBFloat && bits() == 16; }
  bool is_int() const { return code() == kInt; }
  bool is_uint() const { return code() == kUInt; }
  bool is_handle() const { return code() == kHandle && !is_void(); }
  bool is_void() const { return code() == kHandle && bits() == 0 && lanes() == 0; }
  bool is_vector_bool() const { return is_vector() && is_bool(); }
  DataType with_lanes(int lanes) const { return DataType(code(), bits(), lanes); }
  DataType with_bits(int bits) const { return DataType(code(), bits, lanes()); }
  DataType element_of() const { return with_lanes(1); }
  bool operator==(const DataType& o) const { return code() == o.code() && bits() == o.bits() && lanes() == o.lanes(); }
  bool operator!=(const DataType& o) const { return !(*this == o); }
  operator DLDataType() const { return data_; }

  static DataType Int(int bits, int lanes = 1) { return DataType(kInt, bits, lanes); }
  static DataType UInt(int bits, int lanes = 1) { return DataType(kUInt, bits, lanes); }
  static DataType Float(int bits, int lanes = 1) { return DataType(kFloat, bits, lanes); }
  static DataType BFloat(int bits, int lanes = 1) { return DataType(kBFloat, bits, lanes); }
  static DataType NVFloat8E4M3(int lanes = 1) { return DataType(kE4M3Float, 8, lanes); }
  static DataType NVFloat8E5M2(int lanes = 1) { return DataType(kE5M2Float, 8, lanes); }
  static DataType Bool(int lanes = 1) { return UInt(1, lanes); }
  static DataType Handle(int bits = 64, int lanes = 1) { return DataType(kHandle, bits, lanes); }
  static DataType ShapeIndex() { return Int(sizeof(tvm_index_t) * 8); }
  static DataType Void() { return DataType(kHandle, 0, 0); }

 private:
  DLDataType data_;
};

inline int GetVectorBytes(DataType dtype) {
  const int data_bits = dtype.bits() * dtype.lanes();
  // Elements below a byte take a whole one.
  if (dtype.is_bool() || dtype.bits() < 8) return (data_bits + 7) / 8;
  ICHECK_EQ(data_bits % 8, 0U) << "Need to load/store by multiple of bytes";
  return data_bits / 8;
}
inline bool TypeMatch(DLDataType t, int code, int bits, int lanes = 1) { return t.code == code && t.bits == bits && t.lanes == lanes; }
inline bool TypeEqual(DLDataType a, DLDataType b) { return TypeMatch(a, b.code, b.bits, b.lanes); }

namespace detail {
struct TypeName {
  const char* name;
  uint8_t code, bits;
};
// Names that say more than a code and a number of bits.
constexpr TypeName kWholeNames[] = {
    {"float8_e3m4", 7, 8}, {"float8_e4m3", 8, 8}, {"float8_e4m3b11fnuz", 9, 8}, {"float8_e4m3fn", 10, 8},
    {"float8_e4m3fnuz", 11, 8}, {"float8_e5m2", 12, 8}, {"float8_e5m2fnuz", 13, 8}, {"float8_e8m0fnu", 14, 8},
    {"float6_e2m3fn", 15, 6}, {"float6_e3m2fn", 16, 6}, {"float4_e2m1fn", 17, 4}, {"bool", kDLUInt, 1}, {"bool", kDLBool, 8}};
constexpr TypeName kBaseNames[] = {{"int", kDLInt, 32}, {"uint", kDLUInt, 32}, {"float", kDLFloat, 32}, {"bfloat", kDLBfloat, 16},
                                   {"complex", kDLComplex, 64}, {"handle", kDLOpaque, 64}};
}  // namespace detail

inline const char* DLDataTypeCode2Str(int code) {
  for (const auto& n : detail::kBaseNames)
    if (n.code == code) return n.name;
  LOG(FATAL) << "ValueError: unknown type_code=" << code;
}
inline std::string DLDataType2String(DLDataType t) {
  if (t.bits == 0 && t.code == kDLOpaque) return "void";
  const std::string lanes = t.lanes > 1 ? "x" + std::to_string(t.lanes) : "";
  for (const auto& n : detail::kWholeNames)
    if (n.code == t.code && n.bits == t.bits) return n.name + lanes;
  if (t.code == kDLOpaque) return "handle" + lanes;
  for (const auto& n : detail::kBaseNames)
    if (n.code == t.code) return n.name + std::to_string(t.bits) + lanes;
  return "custom[" + std::to_string(t.code) + "]" + std::to_string(t.bits) + lanes;
}

inline DLDataType String2DLDataType(std::string text) {
  if (text.empty() || text == "void") return DataType::Void();
  DLDataType found{0, 0, 1};
  size_t at = 0;
  auto number = [&] {
    unsigned long v = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && v < 65536) v = v * 10 + static_cast<unsigned long>(text[at++] - '0');
    return v;
  };
  for (const auto& n : detail::kWholeNames) {
    const size_t size = strlen(n.name);
    if (found.bits == 0 && text.compare(0, size, n.name) == 0 && (text.size() == size || text[size] == 'x')) found = {n.code, n.bits, 1}, at = size;
  }
  for (const auto& n : detail::kBaseNames) {
    const size_t size = strlen(n.name);
    if (found.bits || text.compare(0, size, n.name) != 0) continue;
    at = size;
    const size_t digits = at;
    const unsigned long bits = number();
    found = {n.code, at > digits ? static_cast<uint8_t>(bits) : n.bits, 1};
    if (at > digits && (bits == 0 || bits > 255)) found.bits = 0;
  }
  if (found.bits && at < text.size() && text[at] == 'x') ++at, found.lanes = static_cast<uint16_t>(number());
  ICHECK(found.bits && found.lanes && at == text.size()) << "ValueError: unknown data type `" << text << "`; examples: float32, int8x16, bfloat16, bool";
  return found;
}

inline std::ostream& operator<<(std::ostream& os, const DataType& dtype) { return os << DLDataType2String(dtype); }

}  // namespace runtime
using DataType = runtime::DataType;
}  // namespace tvm

template <>
struct std::hash<tvm::runtime::DataType> {
  size_t operator()(const tvm::runtime::DataType& t) const {
    return std::hash<uint32_t>()(static_cast<uint32_t>(t.code()) | static_cast<uint32_t>(t.bits()) << 8 | static_cast<uint32_t>(t.lanes()) << 16);
  }
};

// The global scope, so that streams find it for a type that lies there.
inline std::ostream& operator<<(std::ostream& os, DLDataType t) { return os << tvm::runtime::DLDataType2String(t); }

#endif
