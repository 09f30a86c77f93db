"""The kinds of attributes, by their names: ONNX and ONNX Runtime give one name one kind, but for a few operators.

A table here, since ONNX's own schemas take longer to load than most models; a test holds it against them.
"""

from __future__ import annotations

from typing import Any

_NAMES = {
    "int": """
        K N Nkv Nq accuracy_level activation_axis aggregate_function align_corners allowzero antialias auxiliary_kv_shared axis batch_axis
        batch_dims beginning_timestamp_token_id bfp_type bits blk_quant_type block_dim block_size blocksize broadcast causal ceil_mode
        center_point_box channels_last char_embedding_size chunk_size compress_ratio conv_window_size count_include_pad custom d_state
        decoder_output_cross_qk decoder_start_token_id default_int64 delta_offset detect_negative detect_positive dilation dim do_rotary
        down_type dtype early_stopping embed_mode embedding_size end eos_token_id exclude_outside exclusive expert_weight_bits
        fc1_expert_weight_bits fc2_expert_weight_bits fc3_expert_weight_bits flatten_batch fmod gate_type gather_axis group group_size
        group_topk groups head_dim head_rows heads hidden_size ignore_index index_topk input_channel_offset input_channels input_forget
        input_start input_width interleaved inverse is_bidirectional is_case_sensitive is_causal is_inner_broadcast is_packed_batching
        is_test isinf_only isnan_only k keepdims kv_cache_bit_width kv_num_heads largest layout left_window_size linear_before_reset
        local_window_size lora_bits lora_block_size main_context mark mask_index_type max_distance max_gram_length max_map max_ngram_size
        max_output_entries max_size max_skip_count maxsplit min_gram_length min_ngram_size min_tokens_to_keep mincharnum model_type
        mrope_layout multi_class n_group n_groups n_head_per_ngram n_supports n_targets ndim new_axis ngram_size no_repeat_ngram_size
        no_speech_token_id no_timestamps_token_id noop_with_empty_axes normalize_routing_weights normalized num_branches num_groups
        num_heads num_outputs num_scan_inputs offset_group one_class onesided opset order_A order_B order_X order_Y order_global_weight
        order_input order_output order_weight output_bf16 output_datatype output_dtype output_fp16 output_height output_qk output_sequence
        output_width p packed_type pad_id pad_token_id past_present_share_buffer periodic positive precision q_num_heads qk_l2_norm
        qk_matmul_output_mode qk_output quantize_axis replaced_value_int64 reset_on_eos reverse right_window_size rotary_embedding_dim
        rotary_interleaved rotary_offset round_activation router_size sample_size sampling_ratio saturate select_last_index signal_ndim
        size sliding_window_cache smooth_softmax softmax_precision sorted sparse_block_size spatial start start_of_lm_token_id stash_type
        state_capacity state_channels_last state_length state_update_capacity state_window step storage_order swiglu_fusion
        swiglu_limit_after_activation targets time_axis to token_budget top_k topk_group training_mode transA transB transBatchA
        transBatchB transcribe_token_id translate_token_id unidirectional up_type upper use_fp32_arithmetic use_sparse_mixer v_head_size
        value_int vocab_size weight_prepacked weights_prepacked window zeros
    """,
    "ints": """
        axes cats_int64s class_ids class_nodeids class_treeids classlabels_int64s classlabels_ints consumed_inputs dilations directions
        ends imputed_value_int64s inputdimensions int64_vocabulary kernel_shape keys_int64s leaf_targetids mrope_section ngram_counts
        ngram_indexes nodes_falseleafs nodes_falsenodeids nodes_featureids nodes_missing_value_tracks_true nodes_nodeids nodes_treeids
        nodes_trueleafs nodes_truenodeids output_padding output_shape paddings pads perm pool_int64s pooled_shape qkv_hidden_sizes
        scan_input_axes scan_input_directions scan_output_axes scan_output_directions shape split starts strides target_ids target_nodeids
        target_treeids tree_roots value_ints values_int64s vectors_per_class
    """,
    "float": """
        activation_alpha activation_beta activation_gamma alpha beta bias clip cubic_coeff_a decay_factor default_float epsilon
        extrapolation_value filter_value gamma gate_div gate_lower_bound gate_mul head_weight_scale height_scale high k_norm_epsilon lambd
        limit low mask_filter_value max mean min momentum norm_coefficient norm_coefficient_post presence_penalty q_norm_epsilon
        qk_norm_epsilon ratio reduction_scale replaced_value_float routed_scaling_factor router_sentinel routing_epsilon scale seed
        silu_alpha softcap spatial_scale swiglu_limit temperature threshold time_step_min top_p value_float width_scale
    """,
    "floats": """
        activation_params base_values class_weights coefficients imputed_value_floats intercepts kernel_params keys_floats nodes_hitrates
        nodes_values offset prob_a prob_b rho scales support_vectors target_weights value_floats values_floats weights
    """,
    "string": """
        DLC activation activation_type approximate attention_mode auto_pad auxiliary_cache_layout beta_activation case_change_action
        cast_to coordinate_transformation_mode default_string delimiter direction ep_cache_context ep_sdk_version equation gate_activation
        hardware_architecture indexshare_state_policy k_cache_dtype k_quant_type keep_aspect_ratio_policy kernel_type kv_cache_layout
        locale map_form metric mode nearest_mode norm notes onnx_model_filename pad_value padding_mode partition_name pattern pixel_format
        policy_mode post_transform quant_type reduction round_mode selected_kv_source snpe_version source target_device tokenexp
        update_rule v_cache_dtype v_quant_type value_string y
    """,
    "strings": """
        activations cats_strings classes_strings classlabels_strings keys_strings nodes_modes pool_strings separators stopwords
        string_vocabulary value_strings values_strings xs zs
    """,
    "tensor": """
        base_values_as_tensor class_weights_as_tensor default_tensor keys_tensor leaf_weights membership_values nodes_hitrates_as_tensor
        nodes_splits nodes_values_as_tensor target_weights_as_tensor value values_tensor
    """,
    "sparse_tensor": """
        sparse_value
    """,
    "graph": """
        body decoder else_branch encoder init_decoder prob_mod score_mod then_branch
    """,
    "type_proto": """
        type
    """,
}
_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_OPERATORS = {
    "string": "TreeEnsembleRegressor.aggregate_function",
    "int": """
        BiasDropout.seed BitmaskBiasDropout.seed BitmaskDropout.seed Dropout.seed GroupNorm.activation MatMulBnb4.quant_type
        MurmurHash3.seed SkipGroupNorm.activation TreeEnsemble.post_transform
    """,
    "float": "Pad.value",
    "floats": """
        AttnLSTM.activation_alpha AttnLSTM.activation_beta DynamicQuantizeLSTM.activation_alpha DynamicQuantizeLSTM.activation_beta
        GRU.activation_alpha GRU.activation_beta ImageScaler.bias LSTM.activation_alpha LSTM.activation_beta RNN.activation_alpha
        RNN.activation_beta Scaler.scale
    """,
    "ints": "Crop.scale",
    "tensor": "TreeEnsemble.nodes_hitrates TreeEnsemble.nodes_modes",
}
"""Operators whose attribute of a name is of another kind, those of the first opsets among them that ONNX keeps no schemas of."""
_KIND_OF |= {name: kind for kind, names in _OPERATORS.items() for name in names.split()}
_BEFORE = {"Cast.to": (6, "string"), "GlobalLpPool.p": (2, "float"), "LpPool.p": (2, "float")}
"""Attributes that were of another kind before an opset."""
_DEFINED_BY = {
    "": "ONNX", "ai.onnx.ml": "ONNX", "ai.onnx.preview": "ONNX", "ai.onnx.preview.training": "ONNX", "com.microsoft": "ONNX Runtime",
}  # fmt: skip
_KINDS = ("undefined", "float", "int", "string", "tensor", "graph", "floats", "ints", "strings", "tensors", "graphs", "sparse_tensor",
          "sparse_tensors", "type_proto", "type_protos")  # fmt: skip
"""The kinds by their numbers in ONNX's format."""


def kind_of(op_type: str, name: str, opset: int) -> str:
    """The kind of an operator's attribute; "" for one that is not known."""
    key = f"{op_type}.{name}"
    until, kind = _BEFORE.get(key, (0, ""))
    return kind if opset < until else _KIND_OF.get(key) or _KIND_OF.get(name, "")


def wrong_kind(proto: Any, opset: int, domain: str) -> str:
    """What is wrong with the kinds of a node's attributes; "" for nothing. Files of ONNX's first version do not say them."""
    if domain not in _DEFINED_BY:
        return ""
    for a in proto.attribute:
        kind = kind_of(proto.op_type, a.name, opset)
        if kind and a.type and kind != _KINDS[a.type]:
            return (
                f"its attribute {a.name!r} is of the kind {_KINDS[a.type]}, and {_DEFINED_BY[domain]} defines it as {kind}."
                " The file is damaged, or says a wrong opset; export the model again"
            )
    return ""
