"""Reading of ONNX files: the model, its weights, and what the schemas of its operators say."""
