"""What `schemas` reads. Written by `pytest tests/frontend/onnx/test_schemas.py --update`.

A row: name, first opset, inputs and outputs from-to, types of inputs by their places in TYPES, attributes with the
numbers of their kinds (`!`: must be there).
"""

TYPES = (
    "",
    "bfloat16",
    "bfloat16 bool complex128 complex64 float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8",
    "bfloat16 bool complex128 complex64 float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu int16 int2 int32 int4 int64 int8 uint16 uint2 uint32 uint4 uint64 uint8",
    "bfloat16 bool complex128 complex64 float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz float8_e8m0fnu int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8",
    "bfloat16 bool complex128 complex64 float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 "
    "float8_e5m2fnuz int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8",
    "bfloat16 bool complex128 complex64 float16 float32 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8",
    "bfloat16 bool complex128 complex64 float16 float32 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "int16 int32 int64 int8 string uint16 uint32 uint64 uint8",
    "bfloat16 bool complex128 complex64 float16 float32 float64 int16 int32 int64 int8 string uint16 uint32 uint64 uint8",
    "bfloat16 bool float16 float32 float4_e2m1fn float64 float6_e2m3fn float6_e3m2fn float8_e4m3fn float8_e4m3fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 "
    "uint8",
    "bfloat16 bool float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu int16 int2 int32 int4 int64 int8 string uint16 uint2 uint32 uint4 uint64 uint8",
    "bfloat16 bool float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu int16 int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8",
    "bfloat16 bool float16 float32 float4_e2m1fn float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 "
    "int32 int4 int64 int8 string uint16 uint32 uint4 uint64 uint8",
    "bfloat16 bool float16 float32 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int32 int4 int64 "
    "int8 string uint16 uint32 uint4 uint64 uint8",
    "bfloat16 bool float16 float32 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int32 int64 int8 "
    "string uint16 uint32 uint64 uint8",
    "bfloat16 bool float16 float32 float64 int16 int32 int64 int8 string uint16 uint32 uint64 uint8",
    "bfloat16 bool float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8",
    "bfloat16 bool float16 float32 float64 int32 int64 int8 uint32 uint64 uint8",
    "bfloat16 float16",
    "bfloat16 float16 float32",
    "bfloat16 float16 float32 float64",
    "bfloat16 float16 float32 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz",
    "bfloat16 float16 float32 float64 int16 int32 int64",
    "bfloat16 float16 float32 float64 int16 int32 int64 int8",
    "bfloat16 float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8",
    "bfloat16 float16 float32 float64 int32 int64",
    "bfloat16 float16 float32 float64 int32 int64 int8 uint32 uint64 uint8",
    "bfloat16 float16 float32 float64 int32 int64 uint32 uint64",
    "bfloat16 float16 float32 float64 int8 uint8",
    "bfloat16 float16 float32 float8_e4m3fn float8_e5m2",
    "bfloat16 float16 float32 float8_e4m3fn float8_e8m0fnu",
    "bfloat16 float16 float32 float8_e4m3fn int8 uint8",
    "bfloat16 float16 float32 float8_e8m0fnu",
    "bfloat16 float16 float32 float8_e8m0fnu int32",
    "bfloat16 float16 float32 int32",
    "bfloat16 float16 float32 int8",
    "bfloat16 float16 float32 uint8",
    "bfloat16 float16 float8_e4m3fn int8 uint8",
    "bfloat16 float16 int8",
    "bfloat16 float32",
    "bool",
    "bool complex128 complex64 float16 float32 float64 int16 int32 int64 int8 string uint16 uint32 uint64 uint8",
    "bool float16 float32 float64 int16 int32 int64 int8 string uint16 uint32 uint64 uint8",
    "bool float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8",
    "bool float16 float32 float64 int32 int64",
    "bool int32 int64",
    "float16",
    "float16 float32",
    "float16 float32 float64",
    "float16 float32 float64 int16 int32 int64 int8",
    "float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8",
    "float16 float32 float64 int32 int64",
    "float16 float32 float64 int32 int64 int8 uint32 uint64 uint8",
    "float16 float32 float64 int32 int64 uint32 uint64",
    "float16 float32 float64 int8 uint8",
    "float16 float32 int32",
    "float32",
    "float32 float64",
    "float32 float64 int16 int32 int64",
    "float32 float64 int16 int32 int64 string",
    "float32 float64 int32 int64",
    "float32 float64 int32 int64 string",
    "float32 float64 int32 int64 string uint32 uint64",
    "float32 float64 int32 int64 uint32 uint64",
    "float32 int32",
    "float32 int64 string",
    "float32 int8 uint8",
    "float32 uint16 uint8",
    "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int2 int32 "
    "int4 int8 uint16 uint2 uint4 uint8",
    "float4_e2m1fn float6_e2m3fn float6_e3m2fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int2 int4 int8"
    " uint16 uint2 uint4 uint8",
    "float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int2 int32 int4 int8 uint16 uint2 uint4 "
    "uint8",
    "float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int2 int4 int8 uint16 uint2 uint4 uint8",
    "float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int32 int4 int8 uint16 uint4 uint8",
    "float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int4 int8 uint16 uint4 uint8",
    "float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int4 uint4 uint8",
    "float8_e4m3fn",
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int32 int4 int8 uint16 uint4 uint8",
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int16 int4 int8 uint16 uint4 uint8",
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int32 int8 uint8",
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz int8 uint8",
    "float8_e4m3fn uint8",
    "int16 int32 int4 int8 uint16 uint4 uint8",
    "int16 int32 int64 int8 uint16 uint32 uint64 uint8",
    "int16 int4 int8 uint16 uint4 uint8",
    "int16 uint16",
    "int32",
    "int32 int64",
    "int32 int64 string",
    "int32 int8 uint8",
    "int64",
    "int64 string",
    "int8",
    "int8 uint8",
    "string",
    "uint16 uint32 uint64 uint8",
    "uint8",
)
OPERATORS = {
    "": """
Abs 1 1-1 1-1 48 consumed_inputs:7; Abs 6 1-1 1-1 50; Abs 13 1-1 1-1 24; Acos 7 1-1 1-1 48; Acos 22 1-1 1-1 20; Acosh 9 1-1 1-1 48; Acosh
22 1-1 1-1 20; Add 1 2-2 1-1 48,48 axis:2 broadcast:2 consumed_inputs:7; Add 6 2-2 1-1 53,53 axis:2 broadcast:2; Add 7 2-2 1-1 53,53; Add
13 2-2 1-1 27,27; Add 14 2-2 1-1 24,24; Affine 1 1-1 1-1 48 alpha:1 beta:1; AffineGrid 20 2-2 1-1 20,89 align_corners:2; And 1 2-2 1-1
40,40 axis:2 broadcast:2; And 7 2-2 1-1 40,40; ArgMax 1 1-1 1-1 50 axis:2 keepdims:2; ArgMax 11 1-1 1-1 50 axis:2 keepdims:2; ArgMax 12
1-1 1-1 50 axis:2 keepdims:2 select_last_index:2; ArgMax 13 1-1 1-1 24 axis:2 keepdims:2 select_last_index:2; ArgMin 1 1-1 1-1 50 axis:2
keepdims:2; ArgMin 11 1-1 1-1 50 axis:2 keepdims:2; ArgMin 12 1-1 1-1 50 axis:2 keepdims:2 select_last_index:2; ArgMin 13 1-1 1-1 24
axis:2 keepdims:2 select_last_index:2; Asin 7 1-1 1-1 48; Asin 22 1-1 1-1 20; Asinh 9 1-1 1-1 48; Asinh 22 1-1 1-1 20; Atan 7 1-1 1-1 48;
Atan 22 1-1 1-1 20; Atanh 9 1-1 1-1 48; Atanh 22 1-1 1-1 20; Attention 23 3-6 1-4 20,20,20,16,20,20 is_causal:2 kv_num_heads:2
q_num_heads:2 qk_matmul_output_mode:2 scale:1 softcap:1 softmax_precision:2; Attention 24 3-7 1-4 20,20,20,16,20,20,89 is_causal:2
kv_num_heads:2 q_num_heads:2 qk_matmul_output_mode:2 scale:1 softcap:1 softmax_precision:2; Attention 25 3-7 1-4 20,20,20,16,20,20,89
is_causal:2 kv_num_heads:2 left_window_size:2 q_num_heads:2 qk_matmul_output_mode:2 right_window_size:2 scale:1 softcap:1
softmax_precision:2; AveragePool 1 1-1 1-1 48 auto_pad:3 kernel_shape:7! pads:7 strides:7; AveragePool 7 1-1 1-1 48 auto_pad:3
count_include_pad:2 kernel_shape:7! pads:7 strides:7; AveragePool 10 1-1 1-1 48 auto_pad:3 ceil_mode:2 count_include_pad:2 kernel_shape:7!
pads:7 strides:7; AveragePool 11 1-1 1-1 48 auto_pad:3 ceil_mode:2 count_include_pad:2 kernel_shape:7! pads:7 strides:7; AveragePool 19
1-1 1-1 48 auto_pad:3 ceil_mode:2 count_include_pad:2 dilations:7 kernel_shape:7! pads:7 strides:7; AveragePool 22 1-1 1-1 20 auto_pad:3
ceil_mode:2 count_include_pad:2 dilations:7 kernel_shape:7! pads:7 strides:7; BatchNormalization 1 5-5 1-5 48,48,48,48,48
consumed_inputs:7! epsilon:1 is_test:2 momentum:1 spatial:2; BatchNormalization 6 5-5 1-5 48,48,48,48,48 epsilon:1 is_test:2 momentum:1
spatial:2; BatchNormalization 7 5-5 1-5 48,48,48,48,48 epsilon:1 momentum:1 spatial:2; BatchNormalization 9 5-5 1-5 48,48,48,48,48
epsilon:1 momentum:1; BatchNormalization 14 5-5 1-3 20,20,20,20,20 epsilon:1 momentum:1 training_mode:2; BatchNormalization 15 5-5 1-3
20,20,20,20,20 epsilon:1 momentum:1 training_mode:2; Bernoulli 15 1-1 1-1 48 dtype:2 seed:1; Bernoulli 22 1-1 1-1 20 dtype:2 seed:1;
BitCast 26 1-1 1-1 3 to:2!; BitShift 11 2-2 1-1 94,94 direction:3!; BitShift 28 2-2 1-1 82,82 direction:3!; BitwiseAnd 18 2-2 1-1 82,82;
BitwiseNot 18 1-1 1-1 82; BitwiseOr 18 2-2 1-1 82,82; BitwiseXor 18 2-2 1-1 82,82; BlackmanWindow 17 1-1 1-1 86 output_datatype:2
periodic:2; Cast 1 1-1 1-1 43 to:3!; Cast 6 1-1 1-1 43 to:2!; Cast 9 1-1 1-1 42 to:2!; Cast 13 1-1 1-1 15 to:2!; Cast 19 1-1 1-1 14
saturate:2 to:2!; Cast 21 1-1 1-1 13 saturate:2 to:2!; Cast 23 1-1 1-1 12 saturate:2 to:2!; Cast 24 1-1 1-1 11 round_mode:3 saturate:2
to:2!; Cast 25 1-1 1-1 10 round_mode:3 saturate:2 to:2!; Cast 28 1-1 1-1 9 round_mode:3 saturate:2 to:2!; CastLike 15 2-2 1-1 15,15;
CastLike 19 2-2 1-1 14,14 saturate:2; CastLike 21 2-2 1-1 13,13 saturate:2; CastLike 23 2-2 1-1 12,12 saturate:2; CastLike 24 2-2 1-1
11,11 round_mode:3 saturate:2; CastLike 25 2-2 1-1 10,10 round_mode:3 saturate:2; CausalConvWithState 27 2-4 2-2 19,19,19,19 activation:3;
Ceil 1 1-1 1-1 48 consumed_inputs:7; Ceil 6 1-1 1-1 48; Ceil 13 1-1 1-1 20; Celu 12 1-1 1-1 56 alpha:1; Celu 28 1-1 1-1 20 alpha:1;
CenterCropPad 18 2-2 1-1 8,86 axes:7; Clip 1 1-1 1-1 48 consumed_inputs:7 max:1 min:1; Clip 6 1-1 1-1 48 max:1 min:1; Clip 11 1-3 1-1
48,48,48; Clip 12 1-3 1-1 50,50,50; Clip 13 1-3 1-1 24,24,24; Col2Im 18 3-3 1-1 8,89,89 dilations:7 pads:7 strides:7; Compress 9 2-2 1-1
41,40 axis:2; Compress 11 2-2 1-1 41,40 axis:2; Compress 28 2-2 1-1 8,40 axis:2; Concat 1 1-* 1-1 48 axis:2; Concat 4 1-* 1-1 41 axis:2!;
Concat 11 1-* 1-1 41 axis:2!; Concat 13 1-* 1-1 8 axis:2!; ConcatFromSequence 11 1-1 1-1 0 axis:2! new_axis:2; Constant 1 0-0 1-1 -
value:4!; Constant 9 0-0 1-1 - value:4!; Constant 11 0-0 1-1 - sparse_value:11 value:4; Constant 12 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; Constant 13 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; Constant 19 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; Constant 21 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; Constant 23 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; Constant 24 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; Constant 25 0-0 1-1 - sparse_value:11 value:4
value_float:1 value_floats:6 value_int:2 value_ints:7 value_string:3 value_strings:8; ConstantOfShape 9 1-1 1-1 89 value:4;
ConstantOfShape 20 1-1 1-1 89 value:4; ConstantOfShape 21 1-1 1-1 89 value:4; ConstantOfShape 23 1-1 1-1 89 value:4; ConstantOfShape 24
1-1 1-1 89 value:4; ConstantOfShape 25 1-1 1-1 89 value:4; Conv 1 2-3 1-1 48,48,48 auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7
strides:7; Conv 11 2-3 1-1 48,48,48 auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7 strides:7; Conv 22 2-3 1-1 20,20,20 auto_pad:3
dilations:7 group:2 kernel_shape:7 pads:7 strides:7; ConvInteger 10 2-4 1-1 92,92,92,92 auto_pad:3 dilations:7 group:2 kernel_shape:7
pads:7 strides:7; ConvTranspose 1 2-3 1-1 48,48,48 auto_pad:3 dilations:7 group:2 kernel_shape:7 output_padding:7 output_shape:7 pads:7
strides:7; ConvTranspose 11 2-3 1-1 48,48,48 auto_pad:3 dilations:7 group:2 kernel_shape:7 output_padding:7 output_shape:7 pads:7
strides:7; ConvTranspose 22 2-3 1-1 20,20,20 auto_pad:3 dilations:7 group:2 kernel_shape:7 output_padding:7 output_shape:7 pads:7
strides:7; Cos 7 1-1 1-1 48; Cos 22 1-1 1-1 20; Cosh 9 1-1 1-1 48; Cosh 22 1-1 1-1 20; Crop 1 1-1 1-1 48 border:7 scale:7; CumProd 26 2-2
1-1 27,86 exclusive:2 reverse:2; CumSum 11 2-2 1-1 63,86 exclusive:2 reverse:2; CumSum 14 2-2 1-1 27,86 exclusive:2 reverse:2; DFT 17 1-2
1-1 20,86 axis:2 inverse:2 onesided:2; DFT 20 1-3 1-1 20,86,89 inverse:2 onesided:2; DeformConv 19 3-5 1-1 48,48,48,48,48 dilations:7
group:2 kernel_shape:7 offset_group:2 pads:7 strides:7; DeformConv 22 3-5 1-1 20,20,20,20,20 dilations:7 group:2 kernel_shape:7
offset_group:2 pads:7 strides:7; DepthToSpace 1 1-1 1-1 41 blocksize:2!; DepthToSpace 11 1-1 1-1 41 blocksize:2! mode:3; DepthToSpace 13
1-1 1-1 8 blocksize:2! mode:3; DepthToSpace 28 1-1 1-1 8 blocksize:2! mode:3; DequantizeLinear 10 2-3 1-1 88,56,88; DequantizeLinear 13
2-3 1-1 88,56,88 axis:2; DequantizeLinear 19 2-3 1-1 78,19,78 axis:2; DequantizeLinear 21 2-3 1-1 76,19,76 axis:2 block_size:2;
DequantizeLinear 23 2-3 1-1 72,19,72 axis:2 block_size:2 output_dtype:2; DequantizeLinear 24 2-3 1-1 72,32,72 axis:2 block_size:2
output_dtype:2; DequantizeLinear 25 2-3 1-1 70,32,70 axis:2 block_size:2 output_dtype:2; DequantizeLinear 28 2-3 1-1 68,32,68 axis:2
block_size:2 output_dtype:2; Det 11 1-1 1-1 48; Det 22 1-1 1-1 20; Div 1 2-2 1-1 48,48 axis:2 broadcast:2 consumed_inputs:7; Div 6 2-2 1-1
53,53 axis:2 broadcast:2; Div 7 2-2 1-1 53,53; Div 13 2-2 1-1 27,27; Div 14 2-2 1-1 24,24; Dropout 1 1-1 1-2 48 consumed_inputs:7
is_test:2 ratio:1; Dropout 6 1-1 1-2 48 is_test:2 ratio:1; Dropout 7 1-1 1-2 48 ratio:1; Dropout 10 1-1 1-2 48 ratio:1; Dropout 12 1-3 1-2
48,48,40 seed:2; Dropout 13 1-3 1-2 20,48,40 seed:2; Dropout 22 1-3 1-2 21,21,40 seed:2; DynamicQuantizeLinear 11 1-1 3-3 56; Einsum 12
1-* 1-1 50 equation:3!; Einsum 28 1-* 1-1 24 equation:3!; Elu 1 1-1 1-1 48 alpha:1 consumed_inputs:7; Elu 6 1-1 1-1 48 alpha:1; Elu 22 1-1
1-1 20 alpha:1; Equal 1 2-2 1-1 45,45 axis:2 broadcast:2; Equal 7 2-2 1-1 45,45; Equal 11 2-2 1-1 43,43; Equal 13 2-2 1-1 16,16; Equal 19
2-2 1-1 15,15; Erf 9 1-1 1-1 50; Erf 13 1-1 1-1 20; Exp 1 1-1 1-1 48 consumed_inputs:7; Exp 6 1-1 1-1 48; Exp 13 1-1 1-1 20; Expand 8 2-2
1-1 41,89; Expand 13 2-2 1-1 8,89; EyeLike 9 1-1 1-1 43 dtype:2 k:2; EyeLike 22 1-1 1-1 16 dtype:2 k:2; Flatten 1 1-1 1-1 48 axis:2;
Flatten 9 1-1 1-1 41 axis:2; Flatten 11 1-1 1-1 41 axis:2; Flatten 13 1-1 1-1 8 axis:2; Flatten 21 1-1 1-1 6 axis:2; Flatten 23 1-1 1-1 5
axis:2; Flatten 24 1-1 1-1 4 axis:2; Flatten 25 1-1 1-1 2 axis:2; Floor 1 1-1 1-1 48 consumed_inputs:7; Floor 6 1-1 1-1 48; Floor 13 1-1
1-1 20; GRU 1 3-6 2-2 48,48,48,48,85,48 activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2
output_sequence:2; GRU 3 3-6 0-2 48,48,48,48,85,48 activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2
linear_before_reset:2 output_sequence:2; GRU 7 3-6 0-2 48,48,48,48,85,48 activation_alpha:6 activation_beta:6 activations:8 clip:1
direction:3 hidden_size:2 linear_before_reset:2; GRU 14 3-6 0-2 48,48,48,48,85,48 activation_alpha:6 activation_beta:6 activations:8
clip:1 direction:3 hidden_size:2 layout:2 linear_before_reset:2; GRU 22 3-6 0-2 20,20,20,20,85,20 activation_alpha:6 activation_beta:6
activations:8 clip:1 direction:3 hidden_size:2 layout:2 linear_before_reset:2; Gather 1 2-2 1-1 41,86 axis:2; Gather 11 2-2 1-1 41,86
axis:2; Gather 13 2-2 1-1 8,86 axis:2; GatherElements 11 2-2 1-1 41,86 axis:2; GatherElements 13 2-2 1-1 8,86 axis:2; GatherND 11 2-2 1-1
41,89; GatherND 12 2-2 1-1 41,89 batch_dims:2; GatherND 13 2-2 1-1 8,89 batch_dims:2; Gelu 20 1-1 1-1 20 approximate:3; Gemm 1 3-3 1-1
48,48,48 alpha:1 beta:1 broadcast:2 transA:2 transB:2; Gemm 6 3-3 1-1 48,48,48 alpha:1 beta:1 broadcast:2 transA:2 transB:2; Gemm 7 3-3
1-1 48,48,48 alpha:1 beta:1 transA:2 transB:2; Gemm 9 3-3 1-1 53,53,53 alpha:1 beta:1 transA:2 transB:2; Gemm 11 2-3 1-1 53,53,53 alpha:1
beta:1 transA:2 transB:2; Gemm 13 2-3 1-1 27,27,27 alpha:1 beta:1 transA:2 transB:2; GlobalAveragePool 1 1-1 1-1 48; GlobalAveragePool 22
1-1 1-1 20; GlobalLpPool 1 1-1 1-1 48 p:1; GlobalLpPool 2 1-1 1-1 48 p:2; GlobalLpPool 22 1-1 1-1 20 p:2; GlobalMaxPool 1 1-1 1-1 48;
GlobalMaxPool 22 1-1 1-1 20; Greater 1 2-2 1-1 48,48 axis:2 broadcast:2; Greater 7 2-2 1-1 48,48; Greater 9 2-2 1-1 50,50; Greater 13 2-2
1-1 24,24; GreaterOrEqual 12 2-2 1-1 50,50; GreaterOrEqual 16 2-2 1-1 24,24; GridSample 16 2-2 1-1 41,48 align_corners:2 mode:3
padding_mode:3; GridSample 20 2-2 1-1 41,48 align_corners:2 mode:3 padding_mode:3; GridSample 22 2-2 1-1 8,20 align_corners:2 mode:3
padding_mode:3; GroupNormalization 18 3-3 1-1 20,20,20 epsilon:1 num_groups:2!; GroupNormalization 21 3-3 1-1 20,20,20 epsilon:1
num_groups:2! stash_type:2; HammingWindow 17 1-1 1-1 86 output_datatype:2 periodic:2; HannWindow 17 1-1 1-1 86 output_datatype:2
periodic:2; HardSigmoid 1 1-1 1-1 48 alpha:1 beta:1 consumed_inputs:7; HardSigmoid 6 1-1 1-1 48 alpha:1 beta:1; HardSigmoid 22 1-1 1-1 20
alpha:1 beta:1; HardSwish 14 1-1 1-1 48; HardSwish 22 1-1 1-1 20; Hardmax 1 1-1 1-1 48 axis:2; Hardmax 11 1-1 1-1 48 axis:2; Hardmax 13
1-1 1-1 20 axis:2; Identity 1 1-1 1-1 41; Identity 13 1-1 1-1 8; Identity 14 1-1 1-1 0; Identity 16 1-1 1-1 0; Identity 19 1-1 1-1 0;
Identity 21 1-1 1-1 0; Identity 23 1-1 1-1 0; Identity 24 1-1 1-1 0; Identity 25 1-1 1-1 0; If 1 1-1 1-* 40 else_branch:5! then_branch:5!;
If 11 1-1 1-* 40 else_branch:5! then_branch:5!; If 13 1-1 1-* 40 else_branch:5! then_branch:5!; If 16 1-1 1-* 40 else_branch:5!
then_branch:5!; If 19 1-1 1-* 40 else_branch:5! then_branch:5!; If 21 1-1 1-* 40 else_branch:5! then_branch:5!; If 23 1-1 1-* 40
else_branch:5! then_branch:5!; If 24 1-1 1-* 40 else_branch:5! then_branch:5!; If 25 1-1 1-* 40 else_branch:5! then_branch:5!;
ImageDecoder 20 1-1 1-1 95 pixel_format:3; ImageScaler 1 1-1 1-1 48 bias:6 scale:1; InstanceNormalization 1 3-3 1-1 48,48,48
consumed_inputs:7 epsilon:1; InstanceNormalization 6 3-3 1-1 48,48,48 epsilon:1; InstanceNormalization 22 3-3 1-1 20,20,20 epsilon:1;
IsInf 10 1-1 1-1 57 detect_negative:2 detect_positive:2; IsInf 20 1-1 1-1 21 detect_negative:2 detect_positive:2; IsNaN 9 1-1 1-1 48;
IsNaN 13 1-1 1-1 20; IsNaN 20 1-1 1-1 21; LRN 1 1-1 1-1 48 alpha:1 beta:1 bias:1 size:2!; LRN 13 1-1 1-1 20 alpha:1 beta:1 bias:1 size:2!;
LSTM 1 3-8 0-3 48,48,48,48,85,48,48,48 activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 input_forget:2
output_sequence:2; LSTM 7 3-8 0-3 48,48,48,48,85,48,48,48 activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3
hidden_size:2 input_forget:2; LSTM 14 3-8 0-3 48,48,48,48,85,48,48,48 activation_alpha:6 activation_beta:6 activations:8 clip:1
direction:3 hidden_size:2 input_forget:2 layout:2; LSTM 22 3-8 0-3 20,20,20,20,85,20,20,20 activation_alpha:6 activation_beta:6
activations:8 clip:1 direction:3 hidden_size:2 input_forget:2 layout:2; LayerNormalization 1 2-3 1-3 20,20,20 axis:2 epsilon:1
stash_type:2; LayerNormalization 17 2-3 1-3 20,20,20 axis:2 epsilon:1 stash_type:2; LeakyRelu 1 1-1 1-1 48 alpha:1 consumed_inputs:7;
LeakyRelu 6 1-1 1-1 48 alpha:1; LeakyRelu 16 1-1 1-1 20 alpha:1; Less 1 2-2 1-1 48,48 axis:2 broadcast:2; Less 7 2-2 1-1 48,48; Less 9 2-2
1-1 50,50; Less 13 2-2 1-1 24,24; LessOrEqual 12 2-2 1-1 50,50; LessOrEqual 16 2-2 1-1 24,24; LinearAttention 27 3-6 2-2 19,19,19,19,19,19
chunk_size:2 kv_num_heads:2! q_num_heads:2! scale:1 update_rule:3; Log 1 1-1 1-1 48 consumed_inputs:7; Log 6 1-1 1-1 48; Log 13 1-1 1-1
20; LogSoftmax 1 1-1 1-1 48 axis:2; LogSoftmax 11 1-1 1-1 48 axis:2; LogSoftmax 13 1-1 1-1 20 axis:2; Loop 1 3-* 1-* 89,40,41 body:5!;
Loop 11 2-* 1-* 89,40,41 body:5!; Loop 13 2-* 1-* 89,40,0 body:5!; Loop 16 2-* 1-* 89,40,0 body:5!; Loop 19 2-* 1-* 89,40,0 body:5!; Loop
21 2-* 1-* 89,40,0 body:5!; Loop 23 2-* 1-* 89,40,0 body:5!; Loop 24 2-* 1-* 89,40,0 body:5!; Loop 25 2-* 1-* 89,40,0 body:5!;
LpNormalization 1 1-1 1-1 48 axis:2 p:2; LpNormalization 22 1-1 1-1 20 axis:2 p:2; LpPool 1 1-1 1-1 48 auto_pad:3 kernel_shape:7 p:1
pads:7 strides:7; LpPool 2 1-1 1-1 48 auto_pad:3 kernel_shape:7! p:2 pads:7 strides:7; LpPool 11 1-1 1-1 48 auto_pad:3 kernel_shape:7! p:2
pads:7 strides:7; LpPool 18 1-1 1-1 48 auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! p:2 pads:7 strides:7; LpPool 22 1-1 1-1 20
auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! p:2 pads:7 strides:7; MatMul 1 2-2 1-1 48,48; MatMul 9 2-2 1-1 53,53; MatMul 13 2-2 1-1
27,27; MatMulInteger 10 2-4 1-1 92,92,92,92; Max 1 1-* 1-1 48 consumed_inputs:7; Max 6 1-* 1-1 48; Max 8 1-* 1-1 48; Max 12 1-* 1-1 50;
Max 13 1-* 1-1 24; MaxPool 1 1-1 1-1 48 auto_pad:3 kernel_shape:7! pads:7 strides:7; MaxPool 8 1-1 1-2 48 auto_pad:3 kernel_shape:7!
pads:7 storage_order:2 strides:7; MaxPool 10 1-1 1-2 48 auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! pads:7 storage_order:2
strides:7; MaxPool 11 1-1 1-2 48 auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! pads:7 storage_order:2 strides:7; MaxPool 12 1-1 1-2
54 auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! pads:7 storage_order:2 strides:7; MaxPool 22 1-1 1-2 28 auto_pad:3 ceil_mode:2
dilations:7 kernel_shape:7! pads:7 storage_order:2 strides:7; MaxRoiPool 1 2-2 1-1 48,48 pooled_shape:7! spatial_scale:1; MaxRoiPool 22
2-2 1-1 20,20 pooled_shape:7! spatial_scale:1; MaxUnpool 9 2-3 1-1 48,89,89 kernel_shape:7! pads:7 strides:7; MaxUnpool 11 2-3 1-1
48,89,89 kernel_shape:7! pads:7 strides:7; MaxUnpool 22 2-3 1-1 20,89,89 kernel_shape:7! pads:7 strides:7; Mean 1 1-* 1-1 48
consumed_inputs:7; Mean 6 1-* 1-1 48; Mean 8 1-* 1-1 48; Mean 13 1-* 1-1 20; MeanVarianceNormalization 9 1-1 1-1 48 axes:7;
MeanVarianceNormalization 13 1-1 1-1 20 axes:7; MelWeightMatrix 17 5-5 1-1 86,86,86,20,20 output_datatype:2; Min 1 1-* 1-1 48
consumed_inputs:7; Min 6 1-* 1-1 48; Min 8 1-* 1-1 48; Min 12 1-* 1-1 50; Min 13 1-* 1-1 24; Mish 18 1-1 1-1 48; Mish 22 1-1 1-1 20; Mod
10 2-2 1-1 50,50 fmod:2; Mod 13 2-2 1-1 24,24 fmod:2; Mod 28 2-2 1-1 24,24 fmod:2; Mul 1 2-2 1-1 48,48 axis:2 broadcast:2
consumed_inputs:7; Mul 6 2-2 1-1 53,53 axis:2 broadcast:2; Mul 7 2-2 1-1 53,53; Mul 13 2-2 1-1 27,27; Mul 14 2-2 1-1 24,24; Multinomial 7
1-1 1-1 48 dtype:2 sample_size:2 seed:1; Multinomial 22 1-1 1-1 20 dtype:2 sample_size:2 seed:1; Neg 1 1-1 1-1 48 consumed_inputs:7; Neg 6
1-1 1-1 49; Neg 13 1-1 1-1 23; NegativeLogLikelihoodLoss 12 2-3 1-1 48,86,48 ignore_index:2 reduction:3; NegativeLogLikelihoodLoss 13 2-3
1-1 48,86,48 ignore_index:2 reduction:3; NegativeLogLikelihoodLoss 22 2-3 1-1 20,86,20 ignore_index:2 reduction:3; NonMaxSuppression 10
2-5 1-1 56,56,89,56,56 center_point_box:2; NonMaxSuppression 11 2-5 1-1 56,56,89,56,56 center_point_box:2; NonZero 9 1-1 1-1 41; NonZero
13 1-1 1-1 8; Not 1 1-1 1-1 40; OneHot 9 3-3 1-1 50,50,41 axis:2; OneHot 11 3-3 1-1 50,50,41 axis:2; OneHot 28 3-3 1-1 50,50,8 axis:2;
Optional 15 0-1 1-1 0 type:13; Optional 28 0-1 1-1 0 type:13; OptionalGetElement 15 1-1 1-1 0; OptionalGetElement 18 1-1 1-1 0;
OptionalGetElement 28 1-1 1-1 0; OptionalHasElement 15 1-1 1-1 0; OptionalHasElement 18 0-1 1-1 0; OptionalHasElement 28 0-1 1-1 0; Or 1
2-2 1-1 40,40 axis:2 broadcast:2; Or 7 2-2 1-1 40,40; PRelu 1 2-2 1-1 48,48 consumed_inputs:7; PRelu 6 2-2 1-1 48,48; PRelu 7 2-2 1-1
48,48; PRelu 9 2-2 1-1 53,53; PRelu 16 2-2 1-1 27,27; Pad 1 1-1 1-1 48 mode:3 paddings:7! value:1; Pad 2 1-1 1-1 48 mode:3 pads:7!
value:1; Pad 11 2-3 1-1 50,89,50 mode:3; Pad 13 2-3 1-1 8,89,8 mode:3; Pad 18 2-4 1-1 8,89,8,86 mode:3; Pad 19 2-4 1-1 8,89,8,86 mode:3;
Pad 21 2-4 1-1 6,89,6,86 mode:3; Pad 23 2-4 1-1 5,89,5,86 mode:3; Pad 24 2-4 1-1 4,89,4,86 mode:3; Pad 25 2-4 1-1 2,89,2,86 mode:3;
ParametricSoftplus 1 1-1 1-1 48 alpha:1 beta:1; Pow 1 2-2 1-1 48,48 axis:2 broadcast:2; Pow 7 2-2 1-1 48,48; Pow 12 2-2 1-1 51,50; Pow 13
2-2 1-1 25,50; Pow 15 2-2 1-1 25,24; QLinearConv 10 8-9 1-1 92,56,92,92,56,92,56,92,85 auto_pad:3 dilations:7 group:2 kernel_shape:7
pads:7 strides:7; QLinearMatMul 10 8-8 1-1 92,56,92,92,56,92,56,92; QLinearMatMul 21 8-8 1-1 79,19,79,79,19,79,19,79; QuantizeLinear 10
2-3 1-1 64,56,92; QuantizeLinear 13 2-3 1-1 64,56,92 axis:2; QuantizeLinear 19 2-3 1-1 34,34,79 axis:2 saturate:2; QuantizeLinear 21 2-3
1-1 34,34,77 axis:2 block_size:2 output_dtype:2 saturate:2; QuantizeLinear 23 2-3 1-1 34,34,73 axis:2 block_size:2 output_dtype:2
precision:2 saturate:2; QuantizeLinear 24 2-3 1-1 34,33,73 axis:2 block_size:2 output_dtype:2 precision:2 saturate:2; QuantizeLinear 25
2-3 1-1 34,33,71 axis:2 block_size:2 output_dtype:2 precision:2 saturate:2; QuantizeLinear 28 2-3 1-1 34,33,69 axis:2 block_size:2
output_dtype:2 precision:2 saturate:2; RMSNormalization 23 2-2 1-1 20,20 axis:2 epsilon:1 stash_type:2; RNN 1 3-6 0-2 48,48,48,48,85,48
activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 output_sequence:2; RNN 7 3-6 0-2 48,48,48,48,85,48
activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2; RNN 14 3-6 0-2 48,48,48,48,85,48 activation_alpha:6
activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 layout:2; RNN 22 3-6 0-2 20,20,20,20,85,20 activation_alpha:6
activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 layout:2; RandomNormal 1 0-0 1-1 - dtype:2 mean:1 scale:1 seed:1
shape:7!; RandomNormal 22 0-0 1-1 - dtype:2 mean:1 scale:1 seed:1 shape:7!; RandomNormalLike 1 1-1 1-1 41 dtype:2 mean:1 scale:1 seed:1;
RandomNormalLike 22 1-1 1-1 8 dtype:2 mean:1 scale:1 seed:1; RandomUniform 1 0-0 1-1 - dtype:2 high:1 low:1 seed:1 shape:7!; RandomUniform
22 0-0 1-1 - dtype:2 high:1 low:1 seed:1 shape:7!; RandomUniformLike 1 1-1 1-1 41 dtype:2 high:1 low:1 seed:1; RandomUniformLike 22 1-1
1-1 8 dtype:2 high:1 low:1 seed:1; Range 11 3-3 1-1 58,58,58; Range 27 3-3 1-1 22,22,22 stash_type:2; Reciprocal 1 1-1 1-1 48
consumed_inputs:7; Reciprocal 6 1-1 1-1 48; Reciprocal 13 1-1 1-1 20; ReduceL1 1 1-1 1-1 53 axes:7 keepdims:2; ReduceL1 11 1-1 1-1 53
axes:7 keepdims:2; ReduceL1 13 1-1 1-1 27 axes:7 keepdims:2; ReduceL1 18 1-2 1-1 27,89 keepdims:2 noop_with_empty_axes:2; ReduceL2 1 1-1
1-1 53 axes:7 keepdims:2; ReduceL2 11 1-1 1-1 53 axes:7 keepdims:2; ReduceL2 13 1-1 1-1 27 axes:7 keepdims:2; ReduceL2 18 1-2 1-1 27,89
keepdims:2 noop_with_empty_axes:2; ReduceLogSum 1 1-1 1-1 53 axes:7 keepdims:2; ReduceLogSum 11 1-1 1-1 53 axes:7 keepdims:2; ReduceLogSum
13 1-1 1-1 27 axes:7 keepdims:2; ReduceLogSum 18 1-2 1-1 27,89 keepdims:2 noop_with_empty_axes:2; ReduceLogSum 28 1-2 1-1 20,89 keepdims:2
noop_with_empty_axes:2; ReduceLogSumExp 1 1-1 1-1 53 axes:7 keepdims:2; ReduceLogSumExp 11 1-1 1-1 53 axes:7 keepdims:2; ReduceLogSumExp
13 1-1 1-1 27 axes:7 keepdims:2; ReduceLogSumExp 18 1-2 1-1 27,89 keepdims:2 noop_with_empty_axes:2; ReduceLogSumExp 28 1-2 1-1 20,89
keepdims:2 noop_with_empty_axes:2; ReduceMax 1 1-1 1-1 53 axes:7 keepdims:2; ReduceMax 11 1-1 1-1 53 axes:7 keepdims:2; ReduceMax 12 1-1
1-1 52 axes:7 keepdims:2; ReduceMax 13 1-1 1-1 26 axes:7 keepdims:2; ReduceMax 18 1-2 1-1 26,89 keepdims:2 noop_with_empty_axes:2;
ReduceMax 20 1-2 1-1 17,89 keepdims:2 noop_with_empty_axes:2; ReduceMean 1 1-1 1-1 53 axes:7 keepdims:2; ReduceMean 11 1-1 1-1 53 axes:7
keepdims:2; ReduceMean 13 1-1 1-1 27 axes:7 keepdims:2; ReduceMean 18 1-2 1-1 27,89 keepdims:2 noop_with_empty_axes:2; ReduceMin 1 1-1 1-1
53 axes:7 keepdims:2; ReduceMin 11 1-1 1-1 53 axes:7 keepdims:2; ReduceMin 12 1-1 1-1 52 axes:7 keepdims:2; ReduceMin 13 1-1 1-1 26 axes:7
keepdims:2; ReduceMin 18 1-2 1-1 26,89 keepdims:2 noop_with_empty_axes:2; ReduceMin 20 1-2 1-1 17,89 keepdims:2 noop_with_empty_axes:2;
ReduceProd 1 1-1 1-1 53 axes:7 keepdims:2; ReduceProd 11 1-1 1-1 53 axes:7 keepdims:2; ReduceProd 13 1-1 1-1 27 axes:7 keepdims:2;
ReduceProd 18 1-2 1-1 27,89 keepdims:2 noop_with_empty_axes:2; ReduceSum 1 1-1 1-1 53 axes:7 keepdims:2; ReduceSum 11 1-1 1-1 53 axes:7
keepdims:2; ReduceSum 13 1-2 1-1 27,89 keepdims:2 noop_with_empty_axes:2; ReduceSumSquare 1 1-1 1-1 53 axes:7 keepdims:2; ReduceSumSquare
11 1-1 1-1 53 axes:7 keepdims:2; ReduceSumSquare 13 1-1 1-1 27 axes:7 keepdims:2; ReduceSumSquare 18 1-2 1-1 27,89 keepdims:2
noop_with_empty_axes:2; RegexFullMatch 20 1-1 1-1 93 pattern:3; Relu 1 1-1 1-1 48 consumed_inputs:7; Relu 6 1-1 1-1 48; Relu 13 1-1 1-1
20; Relu 14 1-1 1-1 23; Reshape 1 1-1 1-1 48 consumed_inputs:7 shape:7; Reshape 5 2-2 1-1 41,89; Reshape 13 2-2 1-1 8,89; Reshape 14 2-2
1-1 8,89 allowzero:2; Reshape 19 2-2 1-1 7,89 allowzero:2; Reshape 21 2-2 1-1 6,89 allowzero:2; Reshape 23 2-2 1-1 5,89 allowzero:2;
Reshape 24 2-2 1-1 4,89 allowzero:2; Reshape 25 2-2 1-1 2,89 allowzero:2; Resize 10 2-2 1-1 41,56 mode:3; Resize 11 3-4 1-1 41,48,56,89
coordinate_transformation_mode:3 cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1 mode:3 nearest_mode:3; Resize 13 1-4 1-1
8,48,56,89 coordinate_transformation_mode:3 cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1 mode:3 nearest_mode:3; Resize 18 1-4
1-1 8,48,56,89 antialias:2 axes:7 coordinate_transformation_mode:3 cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1
keep_aspect_ratio_policy:3 mode:3 nearest_mode:3; Resize 19 1-4 1-1 8,48,56,89 antialias:2 axes:7 coordinate_transformation_mode:3
cubic_coeff_a:1 exclude_outside:2 extrapolation_value:1 keep_aspect_ratio_policy:3 mode:3 nearest_mode:3; ReverseSequence 10 2-2 1-1 41,89
batch_axis:2 time_axis:2; ReverseSequence 28 2-2 1-1 8,89 batch_axis:2 time_axis:2; RoiAlign 10 3-3 1-1 48,48,89 mode:3 output_height:2
output_width:2 sampling_ratio:2 spatial_scale:1; RoiAlign 16 3-3 1-1 48,48,89 coordinate_transformation_mode:3 mode:3 output_height:2
output_width:2 sampling_ratio:2 spatial_scale:1; RoiAlign 22 3-3 1-1 20,20,89 coordinate_transformation_mode:3 mode:3 output_height:2
output_width:2 sampling_ratio:2 spatial_scale:1; RotaryEmbedding 23 3-4 1-1 19,19,19,89 interleaved:2 num_heads:2 rotary_embedding_dim:2;
Round 11 1-1 1-1 48; Round 22 1-1 1-1 20; STFT 17 2-4 1-1 20,86,20,86 onesided:2; Scale 1 1-1 1-1 48 scale:1; ScaledTanh 1 1-1 1-1 48
alpha:1 beta:1; Scan 8 2-* 1-* 89,41 body:5! directions:7 num_scan_inputs:2!; Scan 9 1-* 1-* 41 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 11 1-* 1-* 41 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 16 1-* 1-* 8 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 19 1-* 1-* 7 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 21 1-* 1-* 6 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 23 1-* 1-* 5 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 24 1-* 1-* 4 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scan 25 1-* 1-* 2 body:5! num_scan_inputs:2!
scan_input_axes:7 scan_input_directions:7 scan_output_axes:7 scan_output_directions:7; Scatter 9 3-3 1-1 41,86,41 axis:2; Scatter 11 3-3
1-1 41,86,41 axis:2; ScatterElements 11 3-3 1-1 41,86,41 axis:2; ScatterElements 13 3-3 1-1 8,86,8 axis:2; ScatterElements 16 3-3 1-1
8,86,8 axis:2 reduction:3; ScatterElements 18 3-3 1-1 8,86,8 axis:2 reduction:3; ScatterND 11 3-3 1-1 41,89,41; ScatterND 13 3-3 1-1
8,89,8; ScatterND 16 3-3 1-1 8,89,8 reduction:3; ScatterND 18 3-3 1-1 8,89,8 reduction:3; Selu 1 1-1 1-1 48 alpha:1 consumed_inputs:7
gamma:1; Selu 6 1-1 1-1 48 alpha:1 gamma:1; Selu 22 1-1 1-1 20 alpha:1 gamma:1; SequenceAt 11 2-2 1-1 0,86; SequenceConstruct 11 1-* 1-1
41; SequenceEmpty 11 0-0 1-1 - dtype:2; SequenceErase 11 1-2 1-1 0,86; SequenceInsert 11 2-3 1-1 0,41,86; SequenceLength 11 1-1 1-1 0;
SequenceMap 17 1-* 1-* 0,0 body:5!; Shape 1 1-1 1-1 41; Shape 13 1-1 1-1 8; Shape 15 1-1 1-1 8 end:2 start:2; Shape 19 1-1 1-1 7 end:2
start:2; Shape 21 1-1 1-1 6 end:2 start:2; Shape 23 1-1 1-1 5 end:2 start:2; Shape 24 1-1 1-1 4 end:2 start:2; Shape 25 1-1 1-1 2 end:2
start:2; Shrink 9 1-1 1-1 50 bias:1 lambd:1; Sigmoid 1 1-1 1-1 48 consumed_inputs:7; Sigmoid 6 1-1 1-1 48; Sigmoid 13 1-1 1-1 20; Sign 9
1-1 1-1 50; Sign 13 1-1 1-1 24; Sin 7 1-1 1-1 48; Sin 22 1-1 1-1 20; Sinh 9 1-1 1-1 48; Sinh 22 1-1 1-1 20; Size 1 1-1 1-1 41; Size 13 1-1
1-1 8; Size 19 1-1 1-1 7; Size 21 1-1 1-1 6; Size 23 1-1 1-1 5; Size 24 1-1 1-1 4; Size 25 1-1 1-1 2; Slice 1 1-1 1-1 41 axes:7 ends:7!
starts:7!; Slice 10 3-5 1-1 41,86,86,86,86; Slice 11 3-5 1-1 41,86,86,86,86; Slice 13 3-5 1-1 8,86,86,86,86; Softmax 1 1-1 1-1 48 axis:2;
Softmax 11 1-1 1-1 48 axis:2; Softmax 13 1-1 1-1 20 axis:2; SoftmaxCrossEntropyLoss 12 2-3 1-2 48,86,48 ignore_index:2 reduction:3;
SoftmaxCrossEntropyLoss 13 2-3 1-2 20,86,20 ignore_index:2 reduction:3; Softplus 1 1-1 1-1 48; Softplus 22 1-1 1-1 20; Softsign 1 1-1 1-1
48; Softsign 22 1-1 1-1 20; SpaceToDepth 1 1-1 1-1 41 blocksize:2!; SpaceToDepth 13 1-1 1-1 8 blocksize:2!; SpaceToDepth 28 1-1 1-1 8
blocksize:2! mode:3; Split 1 1-2 1-* 48,48 axis:2 split:7; Split 2 1-1 1-* 41 axis:2 split:7; Split 11 1-1 1-* 41 axis:2 split:7; Split 13
1-2 1-* 8,89 axis:2; Split 18 1-2 1-* 8,89 axis:2 num_outputs:2; SplitToSequence 11 1-2 1-1 41,86 axis:2 keepdims:2; SplitToSequence 24
1-2 1-1 8,86 axis:2 keepdims:2; Sqrt 1 1-1 1-1 48 consumed_inputs:7; Sqrt 6 1-1 1-1 48; Sqrt 13 1-1 1-1 20; Squeeze 1 1-1 1-1 41 axes:7;
Squeeze 11 1-1 1-1 41 axes:7; Squeeze 13 1-2 1-1 8,89; Squeeze 21 1-2 1-1 6,89; Squeeze 23 1-2 1-1 5,89; Squeeze 24 1-2 1-1 4,89; Squeeze
25 1-2 1-1 2,89; StringConcat 20 2-2 1-1 93,93; StringNormalizer 10 1-1 1-1 93 case_change_action:3 is_case_sensitive:2 locale:3
stopwords:8; StringSplit 20 1-1 2-2 93 delimiter:3 maxsplit:2; Sub 1 2-2 1-1 48,48 axis:2 broadcast:2 consumed_inputs:7; Sub 6 2-2 1-1
53,53 axis:2 broadcast:2; Sub 7 2-2 1-1 53,53; Sub 13 2-2 1-1 27,27; Sub 14 2-2 1-1 24,24; Sum 1 1-* 1-1 48 consumed_inputs:7; Sum 6 1-*
1-1 48; Sum 8 1-* 1-1 48; Sum 13 1-* 1-1 20; SwiGLU 28 2-2 1-1 20,20 alpha:1; Swish 24 1-1 1-1 20 alpha:1; Tan 7 1-1 1-1 48; Tan 22 1-1
1-1 20; Tanh 1 1-1 1-1 48 consumed_inputs:7; Tanh 6 1-1 1-1 48; Tanh 13 1-1 1-1 20; TensorScatter 24 2-3 1-1 4,4,89 axis:2 mode:3;
TfIdfVectorizer 9 1-1 1-1 87 max_gram_length:2! max_skip_count:2! min_gram_length:2! mode:3! ngram_counts:7! ngram_indexes:7!
pool_int64s:7 pool_strings:8 weights:6; ThresholdedRelu 10 1-1 1-1 48 alpha:1; ThresholdedRelu 22 1-1 1-1 20 alpha:1; Tile 1 3-3 1-1
48,48,48; Tile 6 2-2 1-1 41,89; Tile 13 2-2 1-1 8,89; TopK 1 1-1 2-2 48 axis:2 k:2!; TopK 10 2-2 2-2 48,89 axis:2; TopK 11 2-2 2-2 50,89
axis:2 largest:2 sorted:2; TopK 24 2-2 2-2 24,89 axis:2 largest:2 sorted:2; Transpose 1 1-1 1-1 41 perm:7; Transpose 13 1-1 1-1 8 perm:7;
Transpose 21 1-1 1-1 6 perm:7; Transpose 23 1-1 1-1 5 perm:7; Transpose 24 1-1 1-1 4 perm:7; Transpose 25 1-1 1-1 2 perm:7; Trilu 14 1-2
1-1 8,89 upper:2; Unique 11 1-1 1-4 41 axis:2 sorted:2; Unique 28 1-1 1-4 8 axis:2 sorted:2; Unsqueeze 1 1-1 1-1 41 axes:7!; Unsqueeze 11
1-1 1-1 41 axes:7!; Unsqueeze 13 2-2 1-1 8,89; Unsqueeze 21 2-2 1-1 6,89; Unsqueeze 23 2-2 1-1 5,89; Unsqueeze 24 2-2 1-1 4,89; Unsqueeze
25 2-2 1-1 2,89; Upsample 1 1-1 1-1 44 height_scale:1! mode:3 width_scale:1!; Upsample 7 1-1 1-1 41 mode:3 scales:6!; Upsample 9 2-2 1-1
41,56 mode:3; Upsample 10 2-2 1-1 41,56 mode:3; Where 9 3-3 1-1 40,41,41; Where 16 3-3 1-1 40,8,8; Xor 1 2-2 1-1 40,40 axis:2 broadcast:2;
Xor 7 2-2 1-1 40,40
""",
    "ai.onnx.ml": """
ArrayFeatureExtractor 1 2-2 1-1 61,89; Binarizer 1 1-1 1-1 60 threshold:1; CastMap 1 1-1 1-1 0 cast_to:3 map_form:3 max_map:2;
CategoryMapper 1 1-1 1-1 90 cats_int64s:7 cats_strings:8 default_int64:2 default_string:3; DictVectorizer 1 1-1 1-1 0 int64_vocabulary:7
string_vocabulary:8; FeatureVectorizer 1 1-* 1-1 60 inputdimensions:7; Imputer 1 1-1 1-1 60 imputed_value_floats:6 imputed_value_int64s:7
replaced_value_float:1 replaced_value_int64:2; LabelEncoder 1 1-1 1-1 90 classes_strings:8 default_int64:2 default_string:3; LabelEncoder
2 1-1 1-1 65 default_float:1 default_int64:2 default_string:3 keys_floats:6 keys_int64s:7 keys_strings:8 values_floats:6 values_int64s:7
values_strings:8; LabelEncoder 4 1-1 1-1 59 default_float:1 default_int64:2 default_string:3 default_tensor:4 keys_floats:6 keys_int64s:7
keys_strings:8 keys_tensor:4 values_floats:6 values_int64s:7 values_strings:8 values_tensor:4; LinearClassifier 1 1-1 2-2 60
classlabels_ints:7 classlabels_strings:8 coefficients:6! intercepts:6 multi_class:2 post_transform:3; LinearRegressor 1 1-1 1-1 60
coefficients:6 intercepts:6 post_transform:3 targets:2; Normalizer 1 1-1 1-1 60 norm:3; OneHotEncoder 1 1-1 1-1 61 cats_int64s:7
cats_strings:8 zeros:2; SVMClassifier 1 1-1 2-2 60 classlabels_ints:7 classlabels_strings:8 coefficients:6 kernel_params:6 kernel_type:3
post_transform:3 prob_a:6 prob_b:6 rho:6 support_vectors:6 vectors_per_class:7; SVMRegressor 1 1-1 1-1 60 coefficients:6 kernel_params:6
kernel_type:3 n_supports:2 one_class:2 post_transform:3 rho:6 support_vectors:6; Scaler 1 1-1 1-1 60 offset:6 scale:6; TreeEnsemble 5 1-1
1-1 48 aggregate_function:2 leaf_targetids:7! leaf_weights:4! membership_values:4 n_targets:2 nodes_falseleafs:7! nodes_falsenodeids:7!
nodes_featureids:7! nodes_hitrates:4 nodes_missing_value_tracks_true:7 nodes_modes:4! nodes_splits:4! nodes_trueleafs:7!
nodes_truenodeids:7! post_transform:2 tree_roots:7!; TreeEnsembleClassifier 1 1-1 2-2 60 base_values:6 class_ids:7 class_nodeids:7
class_treeids:7 class_weights:6 classlabels_int64s:7 classlabels_strings:8 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6
nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 post_transform:3;
TreeEnsembleClassifier 3 1-1 2-2 60 base_values:6 base_values_as_tensor:4 class_ids:7 class_nodeids:7 class_treeids:7 class_weights:6
class_weights_as_tensor:4 classlabels_int64s:7 classlabels_strings:8 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6
nodes_hitrates_as_tensor:4 nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7
nodes_values:6 nodes_values_as_tensor:4 post_transform:3; TreeEnsembleClassifier 5 1-1 2-2 60 base_values:6 base_values_as_tensor:4
class_ids:7 class_nodeids:7 class_treeids:7 class_weights:6 class_weights_as_tensor:4 classlabels_int64s:7 classlabels_strings:8
nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6 nodes_hitrates_as_tensor:4 nodes_missing_value_tracks_true:7 nodes_modes:8
nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 nodes_values_as_tensor:4 post_transform:3; TreeEnsembleRegressor 1 1-1
1-1 60 aggregate_function:3 base_values:6 n_targets:2 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6
nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 post_transform:3
target_ids:7 target_nodeids:7 target_treeids:7 target_weights:6; TreeEnsembleRegressor 3 1-1 1-1 60 aggregate_function:3 base_values:6
base_values_as_tensor:4 n_targets:2 nodes_falsenodeids:7 nodes_featureids:7 nodes_hitrates:6 nodes_hitrates_as_tensor:4
nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7 nodes_treeids:7 nodes_truenodeids:7 nodes_values:6
nodes_values_as_tensor:4 post_transform:3 target_ids:7 target_nodeids:7 target_treeids:7 target_weights:6 target_weights_as_tensor:4;
TreeEnsembleRegressor 5 1-1 1-1 60 aggregate_function:3 base_values:6 base_values_as_tensor:4 n_targets:2 nodes_falsenodeids:7
nodes_featureids:7 nodes_hitrates:6 nodes_hitrates_as_tensor:4 nodes_missing_value_tracks_true:7 nodes_modes:8 nodes_nodeids:7
nodes_treeids:7 nodes_truenodeids:7 nodes_values:6 nodes_values_as_tensor:4 post_transform:3 target_ids:7 target_nodeids:7
target_treeids:7 target_weights:6 target_weights_as_tensor:4; ZipMap 1 1-1 1-1 56 classlabels_int64s:7 classlabels_strings:8
""",
    "ai.onnx.preview": """
FlexAttention 1 3-3 1-1 20,20,20 prob_mod:5 scale:1 score_mod:5 softmax_precision:2
""",
    "ai.onnx.preview.training": """
Adagrad 1 3-* 1-* 57,89,57 decay_factor:1 epsilon:1 norm_coefficient:1; Adam 1 3-* 1-* 57,89,57 alpha:1 beta:1 epsilon:1
norm_coefficient:1 norm_coefficient_post:1; Gradient 1 1-* 1-* 41 xs:8! y:3! zs:8; Momentum 1 3-* 1-* 57,89,57 alpha:1! beta:1! mode:3!
norm_coefficient:1!
""",
    "com.microsoft": """
Attention 1 2-7 1-2 19,19,19,85,19,19,85 do_rotary:2 mask_filter_value:1 num_heads:2! past_present_share_buffer:2 qkv_hidden_sizes:7
rotary_embedding_dim:2 scale:1 unidirectional:2; AttnLSTM 1 3-14 0-3 57,57,57,57,85,57,57,57,57,57,57,57,85,57 activation_alpha:6
activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 input_forget:2; BeamSearch 1 5-12 1-3 55,85,85,85,85,47,47,85,85,85,85,85
decoder:5! decoder_start_token_id:2 early_stopping:2 encoder:5 eos_token_id:2! init_decoder:5 model_type:2 no_repeat_ngram_size:2
pad_token_id:2! vocab_size:2; BiasAdd 1 3-3 1-1 47,47,47; BiasDropout 1 2-5 1-2 20,20,20,20,40 seed:2; BiasGelu 1 2-2 1-1 20,20;
BiasSoftmax 1 2-2 1-1 48,48 axis:2 is_inner_broadcast:2!; BiasSplitGelu 1 2-2 1-1 47,47; BifurcationDetector 1 3-4 2-2 89,89,89,89
max_ngram_size:2 min_ngram_size:2; BitmaskBiasDropout 1 2-5 1-2 20,20,20,20,40 seed:2; BitmaskDropout 1 1-3 1-2 20,20,40 seed:2;
BranchwiseRMSNorm 1 1-2 1-1 19,19 epsilon:1 num_branches:2; CDist 1 2-2 1-1 57,57 metric:3; CausalConvWithState 1 2-4 2-3 19,19,19,19
activation:3 channels_last:2 dilation:2 input_channel_offset:2 input_channels:2 ndim:2 state_channels_last:2 state_length:2
state_update_capacity:2 state_window:2; ComplexMul 1 2-2 1-1 48,48; ComplexMulConj 1 2-2 1-1 48,48; ConvStateReplay 1 4-4 1-1 47,47,47,89;
ConvTransposeWithDynamicPads 1 2-4 1-1 48,48,89,48 auto_pad:3 dilations:7 group:2 kernel_shape:7 output_padding:7 strides:7; CropAndResize
1 4-4 1-1 48,48,85,85 extrapolation_value:1 mode:3; DecoderAttention 1 12-12 1-3 47,47,47,47,47,40,47,47,40,40,40,40 mask_filter_value:1
num_heads:2!; DecoderMaskedMultiHeadAttention 1 1-11 1-4 47,47,47,85,47,47,47,85,85,85,47 mask_filter_value:1 num_heads:2! output_qk:2
past_present_share_buffer:2 scale:1; DecoderMaskedSelfAttention 1 7-9 2-2 47,47,47,85,47,47,85,85,85 do_rotary:2 mask_filter_value:1
num_heads:2! past_present_share_buffer:2 scale:1; DequantizeBFP 1 3-3 1-1 95,89,89 bfp_type:2! block_dim:2 dtype:2; DequantizeLinear 1 2-3
1-1 81,47,81 axis:2; DequantizeWithOrder 1 2-2 1-1 91,56 order_input:2! order_output:2! to:2!; DynamicQuantizeLSTM 1 12-12 0-3
56,92,92,56,85,56,56,56,56,92,56,92 activation_alpha:6 activation_beta:6 activations:8 clip:1 direction:3 hidden_size:2 input_forget:2;
DynamicQuantizeMatMul 1 3-5 1-1 56,92,56,92,56; DynamicSparseAttention 1 11-20 1-4
19,19,19,35,35,19,19,85,85,85,85,19,19,89,19,19,19,85,56,56 attention_mode:3 auxiliary_kv_shared:2 do_rotary:2 is_causal:2 kv_num_heads:2!
local_window_size:2 num_heads:2! output_bf16:2 qk_norm_epsilon:1 rotary_interleaved:2 rotary_offset:2 scale:1 selected_kv_source:3
smooth_softmax:2; DynamicTimeWarping 1 1-1 1-1 56; EPContext 1 0-* 1-* 16 embed_mode:2 ep_cache_context:3 ep_sdk_version:3
hardware_architecture:3 main_context:2 max_size:2 notes:3 onnx_model_filename:3 partition_name:3 source:3; EmbedLayerNormalization 1 7-9
1-3 85,85,47,47,47,47,47,85,85 epsilon:1 mask_index_type:2; EngramGate 1 5-6 1-2 19,19,19,19,19,19 epsilon:1; ExpandDims 1 2-2 1-1 41,85;
FastGelu 1 1-2 1-1 20,20; FusedConv 1 2-4 1-1 48,48,48,48 activation:3 activation_params:6 auto_pad:3 dilations:7 group:2 kernel_shape:7
pads:7 strides:7; FusedGemm 1 2-3 1-1 53,53,53 activation:3 activation_alpha:1 activation_beta:1 activation_gamma:1 alpha:1 beta:1
transA:2 transB:2; FusedMatMul 1 2-2 1-1 20,20 alpha:1 transA:2 transB:2 transBatchA:2 transBatchB:2; FusedMatMulActivation 1 2-2 1-1
20,20 activation:3! activation_alpha:1 activation_axis:2 activation_beta:1 activation_gamma:1 alpha:1 transA:2 transB:2 transBatchA:2
transBatchB:2; GatedAdd 1 3-4 1-1 19,19,19,19; GatedDeltaNet 1 1-11 1-3 19,19,19,85,19,19,56,56,56,85,85 beta_activation:3 chunk_size:2
gate_activation:3 gate_lower_bound:1 qk_l2_norm:2 scale:1 state_update_capacity:2 update_rule:3; GatedDeltaNetStateReplay 1 4-4 1-1
56,56,56,89; GatedRMSNorm 1 3-3 1-1 19,19,19 activation:3 epsilon:1; GatedRelativePositionBias 1 6-7 1-1 47,47,47,47,47,47,85
num_heads:2!; GatherBlockQuantized 1 3-4 1-1 74,86,19,74 bits:2 block_size:2 gather_axis:2 quantize_axis:2; GatherND 1 2-2 1-1 41,86;
GatherPacked 1 2-2 1-1 95,86 K:2! output_dtype:2 packed_type:2!; Gelu 1 1-1 1-1 20; GemmFastGelu 1 2-3 1-1 19,19,19; GemmFloat8 1 2-6 1-1
29,29,19,56,56,56 activation:3 alpha:1 beta:1 dtype:2 transA:2 transB:2; GemmaRotaryEmbedding 1 5-5 2-2 56,46,46,46,46; GreedySearch 1 2-7
1-1 85,85,85,56,85,85,85 decoder:5! decoder_start_token_id:2 encoder:5 eos_token_id:2! init_decoder:5 model_type:2 no_repeat_ngram_size:2
pad_token_id:2! vocab_size:2; GridSample 1 2-2 1-1 41,41 align_corners:2 mode:3 padding_mode:3; GroupNorm 1 3-3 1-1 47,47,47 activation:2!
channels_last:2 epsilon:1 groups:2!; GroupQueryAttention 1 7-17 1-4 19,19,19,31,31,85,85,19,19,89,19,19,56,56,19,19,85 causal:2
do_rotary:2 k_norm_epsilon:1 k_quant_type:3 kv_cache_bit_width:2 kv_num_heads:2! local_window_size:2 num_heads:2! q_norm_epsilon:1
qk_norm_epsilon:1 qk_output:2 rotary_interleaved:2 scale:1 sliding_window_cache:2 smooth_softmax:2 softcap:1 v_quant_type:3;
HyperConnectionLowRankMix 1 5-7 2-3 19,19,19,19,19,19,19 epsilon:1 gate_div:1 gate_mul:1 num_branches:2! reduction_scale:1 silu_alpha:1;
HyperConnectionPostMix 1 3-4 1-1 19,19,19,19 num_branches:2; HyperConnectionPreMix 1 2-2 1-1 19,19 num_branches:2 reduction_scale:1;
Inverse 1 1-1 1-1 48; Irfft 1 1-1 1-1 48 normalized:2 onesided:2 signal_ndim:2!; IsAllFinite 1 1-* 1-1 20 isinf_only:2 isnan_only:2;
LinearAttention 1 3-6 2-2 19,19,19,19,19,19 chunk_size:2 kv_num_heads:2! q_num_heads:2! scale:1 state_window:2 update_rule:3;
LinearAttentionGate 1 3-4 1-2 19,56,56,19; LongformerAttention 1 7-7 1-1 47,47,47,47,47,47,85 num_heads:2! window:2!; MRotaryEmbedding 1
4-4 1-1 19,89,19,19 interleaved:2 is_packed_batching:2 mrope_layout:2 mrope_section:7! num_heads:2 rotary_embedding_dim:2 scale:1;
Mamba2Verify 1 10-10 3-5 1,1,56,1,1,56,56,56,56,85 d_state:2 epsilon:1 head_dim:2 heads:2! n_groups:2! time_step_min:1;
MatMulBlockQuantizedFp4Weight 1 4-6 1-1 18,95,95,56,56,18 block_size:2; MatMulBlockQuantizedFp8Weight 1 3-5 1-1 18,75,56,56,18
block_size:2; MatMulBnb4 1 3-3 1-1 19,95,19 K:2! N:2! block_size:2! quant_type:2! training_mode:2 transB:2; MatMulFpQ4 1 3-3 1-1 56,95,89
blk_quant_type:2; MatMulInteger16 1 2-2 1-1 84,84; MatMulIntegerToFloat 1 4-7 1-1 92,92,47,47,92,92,47; MatMulNBits 1 3-6 1-1
19,95,19,36,85,19 K:2! N:2! accuracy_level:2 bits:2 block_size:2! weight_prepacked:2; MatMulNBitsMlp 1 8-9 1-2 19,19,19,95,19,19,95,19,19
K:2! N:2! accuracy_level:2 activation:3! bits:2 block_size:2! epsilon:1; MatMulNBitsQLoRA 1 7-7 1-1 47,95,47,95,47,95,47 K:2! N:2!
accuracy_level:2 bits:2 block_size:2 lora_bits:2 lora_block_size:2; MatMulNBitsQkv 1 11-12 3-4 19,19,19,95,19,19,95,19,19,95,19,19 K:2!
Nkv:2! Nq:2! accuracy_level:2 bits:2 block_size:2! epsilon:1; MatMulPacked 1 2-3 1-1 18,95,56 K:2! N:2! activation_type:3 packed_type:2!;
MaxpoolWithMask 1 2-2 1-1 56,85 auto_pad:3 kernel_shape:7 pads:7 storage_order:2 strides:7; MoE 1 5-8 1-1 19,19,19,19,19,19,19,19
activation_alpha:1 activation_beta:1 activation_type:3 k:2 normalize_routing_weights:2 swiglu_fusion:2 swiglu_limit:1
swiglu_limit_after_activation:2 use_sparse_mixer:2; MoEGroupRouter 1 2-3 0-3 19,56,19 group_topk:2 n_group:2 router_sentinel:1 top_k:2!
topk_group:2; MoEPacked 1 5-6 1-1 18,19,95,95,95,19 activation_type:3 down_type:2! gate_type:2! k:2 normalize_routing_weights:2
routed_scaling_factor:1 routing_epsilon:1 up_type:2; MulInteger 1 3-4 1-1 92,92,92,92; MultiHeadAttention 1 1-10 1-4
19,19,19,19,85,19,19,19,85,85 mask_filter_value:1 num_heads:2! scale:1 unidirectional:2; MurmurHash3 1 1-1 1-1 62 positive:2 seed:2;
NGramHashMapping 1 3-7 1-2 86,86,86,86,86,86,85 max_ngram_size:2! n_head_per_ngram:2! pad_id:2! reset_on_eos:2; NGramRepeatBlock 1 2-2 1-1
89,56 ngram_size:2!; NhwcConv 1 2-3 1-1 48,48,48 auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7 strides:7; NhwcFusedConv 1 2-4 1-1
47,47,47,47 activation:3 activation_params:6 auto_pad:3 dilations:7 group:2 kernel_shape:7 pads:7 strides:7; NhwcMaxPool 1 1-1 1-1 92
auto_pad:3 ceil_mode:2 dilations:7 kernel_shape:7! pads:7 strides:7; PackedAttention 1 5-6 1-1 47,47,47,85,85,47 num_heads:2!
qkv_hidden_sizes:7 scale:1; PackedMultiHeadAttention 1 6-7 1-1 47,47,47,47,85,85,47 mask_filter_value:1 num_heads:2! scale:1;
PackedSparseAttentionIndexer 1 16-22 6-9 19,19,19,19,19,19,85,85,19,19,19,89,19,19,19,85,85,85,85,85,85,85 compress_ratio:2! epsilon:1
head_weight_scale:1 index_topk:2 indexshare_state_policy:3 max_output_entries:2 policy_mode:3! scale:1 state_capacity:2!
state_update_capacity:2 token_budget:2; PackedSparseAttentionIndexerMerge 1 3-7 3-3 85,85,85,85,85,85,85 max_output_entries:2!
policy_mode:3!; Pad 1 2-3 1-1 48,89,48 mode:3; PagedAttention 1 8-17 1-3 18,18,18,37,37,85,85,85,18,18,85,18,18,18,56,56,85 do_rotary:2
is_causal:2 k_cache_dtype:3 k_quant_type:3 kv_cache_layout:3 kv_num_heads:2! local_window_size:2 num_heads:2! qk_norm_epsilon:1
rotary_interleaved:2 rotary_offset:2 scale:1 softcap:1 v_cache_dtype:3 v_head_size:2 v_quant_type:3; QAttention 1 5-9 1-2
92,92,47,47,47,85,92,92,47 do_rotary:2 mask_filter_value:1 num_heads:2! past_present_share_buffer:2 scale:1 unidirectional:2;
QEmbedLayerNormalization 1 18-18 2-2 85,85,92,92,92,92,92,85,56,56,56,56,56,92,92,92,92,92 epsilon:1; QGemm 1 6-9 1-1
92,56,92,92,56,92,85,56,92 alpha:1 transA:2 transB:2; QLinearAdd 1 7-8 1-1 92,56,92,92,56,92,56,92; QLinearAveragePool 1 4-5 1-1
92,56,92,56,92 auto_pad:3 ceil_mode:2 channels_last:2 count_include_pad:2 kernel_shape:7! pads:7 strides:7; QLinearConcat 1 3-* 1-1
56,92,66 axis:2!; QLinearConv 1 8-9 1-1 92,56,92,92,56,92,56,92,85 auto_pad:3 channels_last:2 dilations:7 group:2 kernel_shape:7 pads:7
strides:7; QLinearGlobalAveragePool 1 5-5 1-1 92,56,92,56,92 channels_last:2; QLinearLeakyRelu 1 4-5 1-1 92,56,92,56,92 alpha:1;
QLinearMul 1 7-8 1-1 92,56,92,92,56,92,56,92; QLinearReduceMean 1 4-5 1-1 92,56,92,56,92 axes:7! keepdims:2!; QLinearSigmoid 1 4-5 1-1
92,56,92,56,92; QLinearSoftmax 1 5-5 1-1 92,56,92,56,92 axis:2 opset:2!; QLinearWhere 1 9-9 1-1 40,92,56,92,92,56,92,56,92; QMoE 1 6-21
1-1 19,19,80,30,19,80,30,19,80,30,19,80,80,80,19,56,56,56,56,30,30 accuracy_level:2 activation_alpha:1 activation_beta:1 activation_type:3
block_size:2 expert_weight_bits:2 fc1_expert_weight_bits:2 fc2_expert_weight_bits:2 fc3_expert_weight_bits:2 k:2
normalize_routing_weights:2 quant_type:3 swiglu_fusion:2 swiglu_limit:1 swiglu_limit_after_activation:2 use_sparse_mixer:2
weights_prepacked:2; QOrderedAttention 1 17-20 1-1 91,56,56,56,56,91,91,91,56,56,56,56,56,56,56,56,56,85,91,56 num_heads:2! order_input:2!
order_output:2! order_weight:2! qkv_hidden_sizes:7 unidirectional:2; QOrderedGelu 1 3-3 1-1 91,56,56 order_X:2 order_Y:2;
QOrderedLayerNormalization 1 5-5 1-1 91,56,47,47,56 axis:2 epsilon:1 order_X:2 order_Y:2; QOrderedLongformerAttention 1 14-14 1-1
91,56,91,56,56,56,56,46,91,56,56,56,85,56 num_heads:2! order_global_weight:2! order_input:2! order_output:2! order_weight:2! window:2!;
QOrderedMatMul 1 5-8 1-1 91,56,91,56,56,56,91,56 order_A:2! order_B:2! order_Y:2!; QuantizeBFP 1 1-1 3-3 19 bfp_type:2! block_dim:2;
QuantizeLinear 1 2-3 1-1 47,47,83 axis:2; QuantizeWithOrder 1 2-2 1-1 47,56 order_input:2! order_output:2!; QuickGelu 1 1-1 1-1 20
alpha:1; RMSNormRotary 1 5-6 1-2 18,56,89,39,39,85 epsilon:1 flatten_batch:2 input_start:2 input_width:2 output_fp16:2
rotary_embedding_dim:2! use_fp32_arithmetic:2; Range 1 2-3 1-1 58,58,58; ReduceSumInteger 1 1-1 1-1 92 axes:7! keepdims:2!;
RelativePositionBias 1 3-3 1-1 47,89,89 is_bidirectional:2 max_distance:2!; RemovePadding 1 2-2 4-4 47,85; RestorePadding 1 2-2 1-1 47,85;
Rfft 1 1-1 1-1 48 normalized:2 onesided:2 signal_ndim:2; RotaryEmbedding 1 4-4 1-1 19,89,19,19 interleaved:2 is_packed_batching:2
num_heads:2 rotary_embedding_dim:2 scale:1; RouterGateUpProj 1 2-2 2-2 18,18 activation:3 activation_alpha:1 activation_beta:1 limit:1
router_size:2!; SampleOp 1 1-1 1-1 53; Sampling 1 2-9 1-2 85,85,85,56,85,85,85,85,85 custom:2 decoder:5! decoder_start_token_id:2
encoder:5 eos_token_id:2! filter_value:1 init_decoder:5 min_tokens_to_keep:2 model_type:2 no_repeat_ngram_size:2 pad_token_id:2!
presence_penalty:1 temperature:1 top_p:1 vocab_size:2; ScaledSiLU 1 1-2 1-1 19,19 alpha:1; SkipGroupNorm 1 4-5 1-2 47,47,47,47,47
activation:2! channels_last:2 epsilon:1 groups:2!; SkipLayerNormalization 1 3-5 1-4 19,19,19,19,19 epsilon:1;
SkipSimplifiedLayerNormalization 1 3-4 1-4 19,19,19,19 epsilon:1; Snpe 1 1-* 1-* 67 DLC:3! notes:3 snpe_version:3 target_device:3;
SparseAttention 1 9-11 3-3 19,19,19,19,19,85,85,85,85,19,19 do_rotary:2 kv_num_heads:2! num_heads:2! rotary_interleaved:2 scale:1
sparse_block_size:2!; SparseAttentionIndexer 1 8-14 2-3 19,19,19,19,19,19,89,19,19,19,19,89,85,19 compress_ratio:2! epsilon:1
head_weight_scale:1 index_topk:2 policy_mode:3! scale:1 token_budget:2; SparsePagedAttention 1 11-22 1-3
18,18,18,38,38,85,85,85,85,85,85,18,18,85,18,18,18,18,18,56,56,85 attention_mode:3 auxiliary_cache_layout:3 auxiliary_kv_shared:2
do_rotary:2 is_causal:2 k_quant_type:3 kv_num_heads:2! local_window_size:2 num_heads:2! qk_norm_epsilon:1 rotary_interleaved:2
rotary_offset:2 scale:1 selected_kv_source:3 softcap:1 v_quant_type:3; SparseToDenseMatMul 1 2-2 1-1 0,63 alpha:1 transA:2 transB:2;
SpeculativePrefixCommit 1 7-7 3-3 89,89,85,89,89,89,89 head_rows:2; SwiGLU 1 1-2 1-1 19,19 activation_alpha:1 activation_beta:1 limit:1
round_activation:2; Tokenizer 1 1-1 1-1 93 mark:2! mincharnum:2! pad_value:3! separators:8 tokenexp:3; TorchEmbedding 1 2-4 1-1
24,89,89,40; TransposeMatMul 1 2-2 1-1 20,20 alpha:1 transA:2 transB:2; Trilu 1 1-2 1-1 16,89 upper:2; UnfoldTensor 1 1-1 1-1 8 dim:2
size:2! step:2; Unique 1 1-1 3-3 41; VarlenCausalConvWithState 1 5-8 2-3 19,19,85,19,19,85,19,19 activation:3 delta_offset:2 dilation:2
group_size:2 state_update_capacity:2; VarlenNGramHashMapping 1 4-10 1-4 86,86,86,85,86,86,86,85,85,85 max_ngram_size:2!
n_head_per_ngram:2! pad_id:2! reset_on_eos:2 state_update_capacity:2; WhisperBeamSearch 1 5-15 1-5
55,85,85,85,85,47,47,85,85,85,85,85,85,85,47 beginning_timestamp_token_id:2 decoder:5! decoder_output_cross_qk:2 decoder_start_token_id:2
early_stopping:2 encoder:5 eos_token_id:2! init_decoder:5 model_type:2 no_repeat_ngram_size:2 no_speech_token_id:2
no_timestamps_token_id:2 pad_token_id:2! start_of_lm_token_id:2 transcribe_token_id:2 translate_token_id:2 vocab_size:2; WordConvEmbedding
1 4-4 1-1 85,56,56,56 char_embedding_size:2 conv_window_size:2 embedding_size:2
""",
}
