"""TensorFlow's messages, as far as models need them: built here from their field numbers, so that reading a model needs no TensorFlow."""

from __future__ import annotations

from typing import Any

from tilewright.formats.protobuf import message_class

PACKAGE = "tilewright.tensorflow"
Message = Any
"""A message of TensorFlow's format: a graph, function, node, tensor, shape or attribute."""

MESSAGES: dict[str, str] = {
    "GraphDef": "node 1 *NodeDef; library 2 FunctionDefLibrary; version 3 int32",
    "NodeDef": "name 1 string; op 2 string; input 3 *string; device 4 string; attr 5 {AttrValue}",
    "AttrValue": "list 1 ListValue; s 2 ?bytes; i 3 ?int64; f 4 ?float; b 5 ?bool; type 6 ?int32; shape 7 TensorShapeProto;"
    " tensor 8 TensorProto; placeholder 9 ?string; func 10 NameAttrList",
    "ListValue": "s 2 *bytes; i 3 *int64; f 4 *float; b 5 *bool; type 6 *int32; shape 7 *TensorShapeProto; tensor 8 *TensorProto;"
    " func 9 *NameAttrList",
    "NameAttrList": "name 1 string; attr 2 {AttrValue}",
    "Dim": "size 1 int64; name 2 string",
    "TensorShapeProto": "dim 2 *Dim; unknown_rank 3 bool",
    "TensorProto": "dtype 1 int32; tensor_shape 2 TensorShapeProto; version_number 3 int32; tensor_content 4 bytes; float_val 5 *float;"
    " double_val 6 *double; int_val 7 *int32; string_val 8 *bytes; scomplex_val 9 *float; int64_val 10 *int64; bool_val 11 *bool;"
    " dcomplex_val 12 *double; half_val 13 *int32; uint32_val 16 *uint32; uint64_val 17 *uint64",
    "FunctionDefLibrary": "function 1 *FunctionDef",
    "FunctionDef": "signature 1 OpDef; node_def 3 *NodeDef; ret 4 {string}; attr 5 {AttrValue}",
    "OpDef": "name 1 string; input_arg 2 *ArgDef; output_arg 3 *ArgDef",
    "ArgDef": "name 1 string; type 3 int32; type_attr 4 string; number_attr 5 string; type_list_attr 6 string",
    "SavedModel": "saved_model_schema_version 1 int64; meta_graphs 2 *MetaGraphDef",
    "MetaGraphDef": "meta_info_def 1 MetaInfoDef; graph_def 2 GraphDef; saver_def 3 SaverDef; signature_def 5 {SignatureDef};"
    " asset_file_def 6 *AssetFileDef",
    "AssetFileDef": "tensor_info 1 TensorInfo; filename 2 string",
    "MetaInfoDef": "tags 4 *string; tensorflow_version 5 string",
    "SaverDef": "filename_tensor_name 1 string; save_tensor_name 2 string; restore_op_name 3 string",
    "SignatureDef": "inputs 1 {TensorInfo}; outputs 2 {TensorInfo}; method_name 3 string",
    "TensorInfo": "name 1 string; dtype 2 int32; tensor_shape 3 TensorShapeProto",
    "Example": "features 1 Features",
    "Features": "feature 1 {Feature}",
    "Feature": "bytes_list 1 BytesList; float_list 2 FloatList; int64_list 3 Int64List",
    "BytesList": "value 1 *bytes",
    "FloatList": "value 1 *float",
    "Int64List": "value 1 *int64",
    "BundleHeaderProto": "num_shards 1 int32; endianness 2 int32",
    "BundleEntryProto": "dtype 1 int32; shape 2 TensorShapeProto; shard_id 3 int32; offset 4 int64; size 5 int64; crc32c 6 fixed32",
}
"""Fields of each message, as `formats.protobuf` takes them."""

NAMES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64", 10: "bool",
    11: "int8", 12: "uint8", 13: "int32", 14: "bfloat16", 15: "int16", 16: "uint16", 17: "uint16", 18: "complex128", 19: "float16",
    20: "resource", 21: "variant", 22: "uint32", 23: "uint64", 24: "float8_e5m2", 25: "float8_e4m3fn",
}  # fmt: skip
"""Element types by their numbers in DataType; quantised ones are those of the same bits."""
CODES = {name: code for code, name in reversed(NAMES.items())}


def dtype_name(code: int) -> str:
    """An element type's name; references (old variables) are those of what they refer to."""
    return NAMES.get(int(code) % 100, f"type {code}")


def message(name: str) -> Any:
    """The class of a message: message("GraphDef")()."""
    return message_class(PACKAGE, name, MESSAGES)
